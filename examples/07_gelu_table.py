"""Generate: the smallest GELU table for an error that you choose, as Verilog, and what each error costs in ROM."""

from pathlib import Path

from accel.activation_unit import ActivationUnit, fitting_output
from accel.numerics import FixedPoint
from rtl import ActivationBlock, AxisWrapper, emit

numbers = FixedPoint.parse("s16f12,nearest_even,saturate")
for max_error in (1e-2, 1e-3, 1e-4):
    unit = ActivationUnit(
        function="gelu",
        max_error=max_error,
        lanes=1,
        input_format=numbers,
        output_format=fitting_output("gelu", max_error, numbers),
    )
    print(f"error {unit.max_error:.2e}: {unit.table.rom_bits:5} bits of table, latency {unit.latency_cycles} cycles")

files = emit(AxisWrapper(ActivationBlock(unit)), "gelu", Path("build"))
for port in files.description["ports"]:
    print(f"{port['direction']:6} {port['width_bits']:3} {port['name']}")
