"""Generate: Verilog of a four-lane softmax with 8-bit scores, and what its golden model says to a row."""

from pathlib import Path

import numpy as np

from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit
from rtl.axi import AxisWrapper
from rtl.emit import emit
from rtl.softmax import Softmax
from sim.golden.softmax import exact_softmax, softmax

unit = SoftmaxUnit(
    max_length=512,
    lanes=4,
    input_format=FixedPoint.parse("s8f4,nearest_even,saturate"),
    output_format=FixedPoint.parse("u8f8,nearest_up,saturate"),
)
emitted = emit(AxisWrapper(Softmax(unit)), "softmax8", Path("build"))
print(f"{emitted.verilog}: latency {unit.latency_cycles} cycles, every weight within {unit.max_error:.2e}")

scores = np.array([1.0, -2.5, 3.25, 0.0, 2.0])
codes = unit.input_format.quantize(scores)
weights = unit.output_format.to_real(softmax(unit, [codes]).weights[0])
print("golden:", weights)
print("exact: ", exact_softmax(scores).round(4))
