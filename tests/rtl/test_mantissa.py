"""1 / sqrt and log2: bits for every value, and the error bound in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from accel.mantissa_unit import MantissaUnit
from rtl.mantissa import MantissaFunction
from sim.golden.mantissa import mantissa_function
from tests.rtl.test_function_blocks import run_pipeline


def unit(
    function: str, value_bits: int = 13, fraction_bits: int = 10, result: int = 10, error: float = 1e-3
) -> MantissaUnit:
    return MantissaUnit(
        function=function,
        value_bits=value_bits,
        fraction_bits=fraction_bits,
        result_fraction_bits=result,
        max_error=error,
    )


SIZES = [{}, {"value_bits": 11}, {"value_bits": 9, "fraction_bits": 8, "result": 12, "error": 3e-4}, {"error": 0.02}]


@pytest.mark.parametrize("function", ["rsqrt", "log2"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_value_has_the_golden_bits_at_the_stated_latency(function: str, size: dict[str, int]) -> None:
    one = unit(function, **size)
    block = MantissaFunction(one)
    values = range(1, 1 << one.value_bits)
    results, sent, seen = run_pipeline(block, block.value, block.result, values, gaps=0.1)
    assert [(each.exponent, each.mantissa) for each in results] == [mantissa_function(one, value) for value in values]
    assert {after - before for before, after in zip(sent, seen, strict=True)} == {one.latency_cycles}


@pytest.mark.parametrize("function", ["rsqrt", "log2"])
@pytest.mark.parametrize(
    "size", [*SIZES, {"value_bits": 19, "fraction_bits": 16, "result": 17, "error": 1e-5}], ids=str
)
def test_the_stated_error_holds_for_every_value_and_is_not_idle(function: str, size: dict[str, int]) -> None:
    one = unit(function, **size)
    worst = 0.0
    for value in range(1, 1 << one.value_bits):
        e, y = mantissa_function(one, value)
        number = Fraction(y, 2**one.result_fraction_bits)
        if function == "log2":
            worst = max(worst, abs(float(e + number) - math.log2(value)))
        else:
            # |n sqrt(v) - 1| from the square, which is rational.
            square = (number / 2 ** (e // 2)) ** 2 * value
            worst = max(worst, abs(math.sqrt(square) - 1))
    assert one.max_result_error / 3 < worst <= one.max_result_error * (1 + 1e-12)
    assert one.worst_error <= one.max_error


def test_the_tables_are_small() -> None:
    sizes = {name: unit(name, 32, 16, 17, 1e-5).table.rom_bits for name in ("rsqrt", "log2")}
    assert sizes == {"rsqrt": 1280, "log2": 688}
