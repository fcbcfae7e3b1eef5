"""The blocks that can be built by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from accel.errors import InputError, did_you_mean
from accel.numerics import FixedPoint, Overflow, Rounding
from accel.softmax_unit import SoftmaxUnit
from rtl.contract import Contract, StreamUnit
from rtl.softmax import Softmax, softmax_contract

__all__ = ["UNITS", "UnitEntry", "find_unit", "summaries"]


@dataclass(frozen=True, kw_only=True)
class UnitEntry:
    """A block that can be built by name.

    Parameters
    ----------
    name : str
        As users call it.
    summary : str
        What it does, in one line.
    default : object
        Its description with the parameters that suit most models.
    contract : callable
        ``contract(description, counters=bool)``: what a block of that description promises; builds nothing.
    build : callable
        ``build(description, counters=bool)``: the block.
    """

    name: str
    summary: str
    default: Any
    contract: Callable[..., Contract]
    build: Callable[..., StreamUnit]


_DEFAULT_SOFTMAX = SoftmaxUnit(
    max_length=256,
    lanes=1,
    input_format=FixedPoint(
        signed=True,
        width_bits=16,
        fraction_bits=10,
        rounding=Rounding.NEAREST_EVEN,
        overflow=Overflow.SATURATE,
    ),
    output_format=FixedPoint(
        signed=False,
        width_bits=16,
        fraction_bits=16,
        rounding=Rounding.NEAREST_UP,
        overflow=Overflow.SATURATE,
    ),
    exp_segments=64,
)

UNITS: Mapping[str, UnitEntry] = {
    entry.name: entry
    for entry in (
        UnitEntry(
            name="softmax",
            summary="single-pass softmax with a running maximum whose changes rescale the sum by a shift",
            default=_DEFAULT_SOFTMAX,
            contract=softmax_contract,
            build=Softmax,
        ),
    )
}
"""All blocks by name."""


def find_unit(name: str) -> UnitEntry:
    """Return the block called ``name``.

    Raises
    ------
    InputError
        There is none.
    """
    if name not in UNITS:
        raise InputError(f"unit must be a known block, not {name!r}", hint=did_you_mean(name, UNITS), field=("unit",))
    return UNITS[name]


def summaries() -> list[dict[str, Any]]:
    """Return what a listing shows of each block, for its default parameters, as plain data."""
    found = []
    for entry in UNITS.values():
        contract = entry.contract(entry.default, counters=False)
        found.append(
            {
                "name": entry.name,
                "family": contract.family,
                "summary": entry.summary,
                "latency_cycles": contract.latency_cycles,
                "interval_cycles": contract.interval_cycles,
                "input_format": str(contract.input_format),
                "output_format": str(contract.output_format),
                "max_error": contract.max_error,
            }
        )
    return found
