"""2^x, e^x, 1/x, 1/sqrt(x) or log2(x) of every number of a stream, several lanes wide."""

from __future__ import annotations

from functools import partial

from accel.primitive_unit import PrimitiveUnit
from rtl.contract import Contract
from rtl.lanes import LaneBlock
from rtl.primitive.lane import PrimitiveLane

__all__ = ["PrimitiveBlock", "primitive_contract"]


def primitive_contract(unit: PrimitiveUnit) -> Contract:
    """Return what a ``PrimitiveBlock`` of these parameters promises, without building it."""
    table = unit.table
    return Contract(
        unit=unit.function,
        family="primitive",
        summary=(
            f"{unit.function}: {unit.primitive.summary}.",
            f"{unit.lanes} number(s) in a beat, one beat a cycle; results leave {unit.latency_cycles} cycles later.",
            f"Inputs {unit.input_format}; results {unit.output_format}.",
            f"Every result is within {unit.worst_error:.3g} of the exact function of its input code, by trial of all.",
        ),
        parameters={
            "function": unit.function,
            "max_error": unit.max_error,
            "lanes": unit.lanes,
            "max_degree": unit.max_degree,
        },
        derived={
            "degree": table.degree,
            "segments": table.segments,
            "low_bits": table.low_bits,
            "argument_bits": unit.argument_bits,
            "coefficient_fraction_bits": table.fraction_bits,
            "coefficient_bits": [each.width_bits for each in table.fields],
            "rom_bits": table.rom_bits * unit.lanes,
            "value_bits": table.value_range[1].bit_length(),
            "lowest_exponent": unit.lowest_exponent,
            "highest_exponent": unit.highest_exponent,
        },
        input_format=unit.input_format,
        output_format=unit.output_format,
        latency_cycles=unit.latency_cycles,
        interval_cycles=1,
        latency_span="from a beat to its results",
        max_error=unit.worst_error,
        actions={},
    )


class PrimitiveBlock(LaneBlock):
    """A primitive function of every number of a stream.

    The arithmetic is that of ``accel.primitive_unit``, bit for bit, and so are error bound, latency and timing. A beat
    is accepted in every cycle (interval 1) as long as the output is taken. Back-pressure loses nothing. ``keep`` and
    ``last`` pass; lanes that are not kept give 0.

    Parameters
    ----------
    unit : PrimitiveUnit
        All parameters of the arithmetic.

    Members
    -------
    inputs : In(stream of beats: number, keep, last)
        Numbers; lanes whose ``keep`` is low hold none.
    results : Out(stream of beats: result, keep, last)
        Results, beat for beat and lane for lane.
    """

    def __init__(self, unit: PrimitiveUnit) -> None:
        self._unit = unit
        super().__init__(
            unit, make_pipeline=partial(PrimitiveLane, unit), pipeline_cycles=PrimitiveLane.latency_of(unit)
        )

    @property
    def unit(self) -> PrimitiveUnit:
        """The parameters of the arithmetic."""
        return self._unit

    @property
    def contract(self) -> Contract:
        """What the block promises."""
        return primitive_contract(self._unit)
