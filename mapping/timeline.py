"""When each Einsum of a schedule works within an epoch: what pictures and traces draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from accel.result import Result

__all__ = ["Bar", "epoch_bars"]


@dataclass(frozen=True, kw_only=True)
class Bar:
    """The time of one Einsum in an epoch.

    Parameters
    ----------
    array, einsum : str
        Where and what.
    offset : int
        Epochs since its tile came in.
    begin, end : int
        Cycles from the begin of the epoch.
    slot, slots : int
        Its slot, and how many alternate cycle by cycle during that time; 0 and 1 where it has the array for itself.
    """

    array: str
    einsum: str
    offset: int
    begin: int
    end: int
    slot: int
    slots: int


def epoch_bars(result: Result) -> tuple[Bar, ...]:
    """Return the bars of an epoch of full tiles, without Einsums that run after a loop only.

    In slots that alternate, a slot's n-th cycle comes after n cycles of its own and as many of each other slot, or all
    that it has.
    """
    return tuple(_bars(result))


def _bars(result: Result) -> Iterator[Bar]:
    plan = result.schedule.plan
    every_tile = max(each.runs for each in result.einsums)
    cycles = {each.einsum: each.tile_cycles for each in result.einsums if each.runs == every_tile}
    now = 0
    for group in plan.epoch:
        slots = [
            {array: [name for name in names if name in cycles] for array, names in slot.items()} for slot in group.slots
        ]
        lengths = [max(sum(cycles[name] for name in names) for names in slot.values()) for slot in slots]
        for index, slot in enumerate(slots):
            others = [length for other, length in enumerate(lengths) if other != index]

            def at(own: int, others: list[int] = others) -> int:
                return own + sum(min(own, other) for other in others)

            for array, names in slot.items():
                own = 0
                for name in names:
                    yield Bar(
                        array=array,
                        einsum=name,
                        offset=plan.offsets[name],
                        begin=now + at(own),
                        end=now + at(own + cycles[name]),
                        slot=index,
                        slots=len(slots),
                    )
                    own += cycles[name]
        now += sum(lengths) + group.stall_cycles
