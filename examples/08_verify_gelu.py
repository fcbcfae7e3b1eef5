"""Verify: all 65,536 inputs of a GELU through its compiled Verilog, against the golden model and the exact function."""

from pathlib import Path

import numpy as np

from accel.activation_unit import ActivationUnit, fitting_output
from accel.numerics import FixedPoint
from rtl import ActivationBlock, AxisWrapper, emit
from sim.compiled import CompiledUnit
from sim.golden.activation import activation, exact_activation
from sim.toolchain import find_toolchain

numbers = FixedPoint.parse("s16f12,nearest_even,saturate")
result = fitting_output("gelu", 1e-3, numbers)
unit = ActivationUnit(function="gelu", max_error=1e-3, lanes=1, input_format=numbers, output_format=result)
files = emit(AxisWrapper(ActivationBlock(unit)), "gelu", Path("build"))
hardware = CompiledUnit.build(
    files.verilog, files.description, toolchain=find_toolchain(), cache=Path("build/simulators")
)

codes = np.arange(unit.input_format.min_code, unit.input_format.max_code + 1)
seen = hardware.run(codes[:, np.newaxis])
golden = activation(unit, codes)
error = np.abs(unit.output_format.to_real(seen.codes[:, 0]) - exact_activation(unit, codes)).max()

print(f"{np.count_nonzero(seen.codes[:, 0] == golden)} of {codes.size} codes equal to the golden model")
print(f"largest error {error:.2e}, stated {unit.max_error:.2e}")
print(f"first result {seen.out_cycles[0] - seen.in_cycles[0]} cycles after its input, stated {unit.latency_cycles}")
assert (seen.codes[:, 0] == golden).all() and error <= unit.max_error
