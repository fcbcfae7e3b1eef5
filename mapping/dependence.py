"""Which elements of a fiber each tensor of a cascade depends on, sweep by sweep.

The elements of the analysed rank are visited in sweeps. What a value depends on within its latest sweep is written as a
set of boxes. A box names the ranks whose coordinate is the value's own, or an earlier one for a running value; over all
other ranks of the fiber it spans every coordinate. The empty box is the whole fiber: such a value exists only once the
sweep is over. docs/passes.md argues from here to the number of passes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from accel.cascade import Cascade, Einsum, Stage
from accel.errors import InputError, did_you_mean
from accel.expression import Access, Condition, Index, size_symbol

__all__ = ["WHOLE_FIBER", "Dependence", "Family", "State", "Sweeps"]

Box = frozenset[str]

WHOLE_FIBER: Box = frozenset()
"""The box that spans every element of the fiber."""

_FIXED = "="
"""Stands in a box for a coordinate that is a constant: a part of the fiber, though not the value's own."""

_EARLIER = "<"
"""Stands in a box whose coordinates bring all earlier ones with them: that of a prefix or of a running value."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A rank and every rank that counts its coordinates or part of them: other names, and digits of partitions.

    Parameters
    ----------
    cascade : Cascade
        Where they occur.
    rank : str
        The rank of which they are.

    Raises
    ------
    InputError
        The cascade has no such rank.
    """

    cascade: Cascade
    rank: str

    def __post_init__(self) -> None:
        """Check the rank."""
        if self.rank not in self.cascade.ranks:
            hint = did_you_mean(self.rank, self.cascade.ranks)
            raise InputError(f"cascade {self.cascade.name} has no rank {self.rank!r}", hint=hint)

    @cached_property
    def refinements(self) -> Mapping[str, frozenset[frozenset[str]]]:
        """For each rank, the sets of other ranks that together name its coordinates.

        They index a tensor rank declared over it. A rank of a written tensor that it indexes is another name for it.
        """
        found: dict[str, set[frozenset[str]]] = {}
        given = {tensor.name for tensor in self.cascade.inputs}
        for read in (read for einsum in self.cascade.einsums for read in einsum.reads):
            for index, rank in zip(read.indices, self.cascade.tensors[read.tensor].ranks, strict=True):
                if index.ranks and index.ranks != (rank,):
                    found.setdefault(rank, set()).add(frozenset(index.ranks))
                    if index.rank is not None and read.tensor not in given:
                        found.setdefault(index.rank, set()).add(frozenset({rank}))
        return {rank: frozenset(sets) for rank, sets in found.items()}

    @cached_property
    def members(self) -> frozenset[str]:
        """All ranks of the family."""
        found, fresh = {self.rank}, [self.rank]
        while fresh:
            for ranks in self.refinements.get(fresh.pop(), ()):
                fresh.extend(ranks - found)
                found |= ranks
        return frozenset(found)

    def covers(self, ranks: Iterable[str]) -> tuple[Box, ...]:
        """Return each way in which ``ranks`` name single elements of the fiber; empty if they name none."""
        return tuple(sorted(set(self._covers(self.rank, frozenset(ranks), frozenset())), key=sorted))

    def _covers(self, rank: str, ranks: frozenset[str], above: frozenset[str]) -> list[Box]:
        found = [frozenset({rank})] if rank in ranks else []
        for parts in self.refinements.get(rank, ()):
            if parts.isdisjoint(above | {rank}):
                options = [self._covers(part, ranks, above | {rank}) for part in sorted(parts)]
                found.extend(frozenset().union(*choice) for choice in itertools.product(*options))
        return found


@dataclass(frozen=True, kw_only=True)
class State:
    """What a value depends on.

    Parameters
    ----------
    sweep : int
        The latest sweep that it depends on; 0 where it depends on no element.
    boxes : frozenset of frozenset of str
        What it depends on within that sweep.
    """

    sweep: int = 0
    boxes: frozenset[Box] = frozenset()

    @property
    def is_complete(self) -> bool:
        """Whether it needs the whole fiber, so that it exists only after its sweep."""
        return WHOLE_FIBER in self.boxes

    @classmethod
    def joined(cls, states: Iterable[State]) -> State:
        """Return what a value computed from all ``states`` depends on before it visits anything itself."""
        known = list(states)
        sweep = max((state.sweep for state in known), default=0)
        boxes = frozenset(box for state in known if state.sweep == sweep for box in state.boxes)
        # The whole fiber takes in every other box.
        return cls(sweep=sweep, boxes=frozenset({WHOLE_FIBER}) if WHOLE_FIBER in boxes else boxes)


@dataclass(frozen=True, kw_only=True)
class Dependence:
    """The dependence of one Einsum.

    Parameters
    ----------
    einsum : Einsum
        The Einsum.
    operands : mapping of Access to State
        What each operand, as indexed there, depends on.
    covers : tuple of frozenset of str
        How its ranks name single elements; empty if it visits none.
    point : State
        What a point of its iteration space depends on, its own visit included.
    output : State
        What the tensor that it writes depends on.
    """

    einsum: Einsum
    operands: Mapping[Access, State]
    covers: tuple[Box, ...]
    point: State
    output: State

    @property
    def visits(self) -> bool:
        """Whether it visits the elements of the fiber one by one."""
        return bool(self.covers)

    @property
    def waits(self) -> bool:
        """Whether it runs once its sweep is over: it visits no element and needs the whole fiber."""
        return not self.visits and self.point.is_complete


@dataclass(frozen=True, kw_only=True)
class Sweeps:
    """The dependences of all Einsums when each runs in the earliest sweep that its operands allow.

    Parameters
    ----------
    family : Family
        The analysed rank.
    descending : frozenset of int
        Sweeps that visit the fiber from its last element to its first; all others go from first to last.

    Raises
    ------
    InputError
        The number of sweeps is unbounded: it grows with an iterative rank that is not of the family.
    """

    family: Family
    descending: frozenset[int] = frozenset()
    _steps: dict[str, State] = field(default_factory=dict, init=False, repr=False, compare=False)
    _starts: dict[str, State] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def dependences(self) -> Mapping[str, Dependence]:
        """The dependence of each Einsum, initial values left out, by name in the order of the cascade."""
        found: dict[str, Dependence] = {}
        for stage in self.family.cascade.stages:
            self._settle(stage, found)
        return {each.name: found[each.name] for each in self.family.cascade.einsums if not each.is_initial}

    @property
    def number(self) -> int:
        """The number of sweeps."""
        return max((each.point.sweep for each in self.dependences.values() if each.visits), default=0)

    def _settle(self, stage: Stage, found: dict[str, Dependence]) -> None:
        """Work out one stage; a loop is repeated until nothing changes."""
        # Sweeps can rise along each edge of the loop once; if they still rise after that, they rise at every step.
        rounds = 1 if stage.rank is None else len(self.family.members) * len(stage.einsums) + len(stage.einsums) + 2
        for _ in range(rounds):
            before = {einsum.name: self._steps.get(einsum.name) for einsum in stage.einsums}
            for einsum in stage.einsums:
                dependence = self._dependence(einsum)
                if einsum.is_initial:
                    self._starts[einsum.name] = dependence.output
                else:
                    found[einsum.name] = dependence
                    self._steps[einsum.name] = dependence.output
            if stage.rank is None or before == {einsum.name: self._steps[einsum.name] for einsum in stage.einsums}:
                return
        names = ", ".join(einsum.name for einsum in stage.einsums)
        raise InputError(
            f"the number of passes over {self.family.rank!r} must be bounded, but each step of {stage.rank!r} in "
            f"{names} needs another one",
            hint=f"analyse another rank of cascade {self.family.cascade.name}",
            place=stage.einsums[0].place,
        )

    def _dependence(self, einsum: Einsum) -> Dependence:
        covers = self.family.covers(einsum.ranks)
        operands = {read: self._for_elements(einsum, read, covers) for read in einsum.reads}
        joined = State.joined(operands.values())
        point = joined
        if covers and joined.is_complete:
            point = State(sweep=joined.sweep + 1, boxes=frozenset(covers))
        elif covers:
            point = State(sweep=max(joined.sweep, 1), boxes=joined.boxes | frozenset(covers))
        boxes = frozenset(self._reduced(einsum, box, point.sweep) for box in point.boxes)
        output = State.joined([State(sweep=point.sweep, boxes=boxes)])
        return Dependence(einsum=einsum, operands=operands, covers=covers, point=point, output=output)

    def _for_elements(self, einsum: Einsum, read: Access, covers: tuple[Box, ...]) -> State:
        """Return the state of an operand; complete where some element, at all points that visit it, needs all others.

        An Einsum that pairs elements (``D[i,k] = A[i] * L[k]``) visits each at many points. What the element needs of
        an operand that it shares with others (``L[k]`` for element i) is what its points need together: the box of the
        operand, spread over the ranks that do not name the element.
        """
        state = self._read(read)
        for box in state.boxes:
            own = box - {_bounded(each) for each in einsum.conditions}
            shared = [cover for cover in covers if not cover <= set(read.ranks)]
            if covers and (not own or any(self._all_meet(einsum, own, cover, state.sweep) for cover in shared)):
                return State(sweep=state.sweep, boxes=frozenset({WHOLE_FIBER}))
        return state

    def _all_meet(self, einsum: Einsum, box: Box, cover: Box, sweep: int) -> bool:
        """Whether the points of ``einsum`` at one element, named by ``cover``, need the whole fiber together."""
        apart = (box & self.family.members) - cover
        return bool(apart) and self._spread(einsum, box, cover, sweep) == WHOLE_FIBER

    def _read(self, read: Access) -> State:
        """Return the state of a tensor in terms of the ranks that index it in ``read``."""
        tensor = self.family.cascade.tensors[read.tensor]
        states = [self._starts.get(read.tensor, State())]
        at_start = any(
            index.constant == 0 and rank == tensor.iterative_rank
            for index, rank in zip(read.indices, tensor.ranks, strict=True)
        )
        if not at_start:
            states.append(self._steps.get(read.tensor, State()))
        state = State.joined(states)
        indices = dict(zip(tensor.ranks, read.indices, strict=True))
        boxes = frozenset(_indexed(box, indices) for box in state.boxes)
        return State.joined([State(sweep=state.sweep, boxes=boxes)])

    def _reduced(self, einsum: Einsum, box: Box, sweep: int) -> Box:
        """Return ``box`` after the reduction: reduced ranks span all coordinates, unless a filter keeps them behind."""
        box = self._spread(einsum, box, self.family.members.intersection(einsum.output.ranks), sweep)
        if einsum.iterative_rank in box:
            # Steps run from the first to the last; a sweep the other way reaches no step before its end.
            late = {einsum.iterative_rank} if sweep in self.descending else set()
            return _plain({*(box - late), _EARLIER})
        return box

    def _spread(self, einsum: Einsum, box: Box, over: Box, sweep: int) -> Box:
        """Return the box of all points that agree on the ranks ``over``, where each point of ``einsum`` has ``box``."""
        kept = {rank for rank in box if rank in over or rank not in self.family.members}
        for rank in box - kept:
            ahead = {
                other
                for condition in einsum.conditions
                for other in over
                if _stays_behind(condition, rank, other, descending=sweep in self.descending)
            }
            kept |= ahead | ({_EARLIER} if ahead else set())
            # A filter on the rank alone leaves a part of the fiber out.
            kept |= {_bounded(each) for each in einsum.conditions if self._bounds(each, rank)}
        return _plain(kept)

    def _bounds(self, condition: Condition, rank: str) -> bool:
        sizes = {size_symbol(each) for each in self.family.members}
        return condition.ranks == (rank,) and condition.comparison != "!=" and sizes.isdisjoint(condition.symbols)


def _bounded(condition: Condition) -> str:
    """Return what stands in a box for the part of a fiber that a filter on one rank lets through."""
    names = condition.ranks
    if len(names) != 1:
        return ""
    sides = (re.sub(rf"\b{names[0]}\b", "*", str(side)) for side in (condition.left, condition.right))
    return condition.comparison.join(sides)


def _plain(box: Iterable[str]) -> Box:
    """Return ``box``, or the whole fiber where it names no coordinate."""
    kept = frozenset(box)
    return kept if kept - {_EARLIER} else WHOLE_FIBER


def _indexed(box: Box, indices: Mapping[str, Index]) -> Box:
    """Return ``box`` of a tensor in terms of the ranks that index the tensor."""
    named: set[str] = set()
    for rank in box:
        index = indices.get(rank)
        if index is None:
            named.add(rank)
        elif index.ranks:
            named.update(index.ranks)
        elif index.final_symbol is None and not (index.symbols and _EARLIER in box):
            # A coordinate far along a prefix, such as S[M-1], has all of the fiber behind it; others stand alone.
            named.add(_FIXED)
    return _plain(named)


def _stays_behind(condition: Condition, rank: str, other: str, *, descending: bool) -> bool:
    """Whether ``condition`` keeps ``rank`` from running ahead of ``other`` in the direction of the sweep."""
    slopes: dict[str, int] = {}
    for side, sign in ((condition.left, 1), (condition.right, -1)):
        for term in side.terms:
            if term.rank is not None:
                if term.symbols:
                    return False
                slopes[term.rank] = slopes.get(term.rank, 0) + sign * term.factor
    slopes = {name: slope for name, slope in slopes.items() if slope}
    if set(slopes) != {rank, other} or slopes[rank] != -slopes[other]:
        return False
    if condition.comparison == "==":
        return True
    bounds_above = condition.comparison in ("<", "<=") if slopes[rank] > 0 else condition.comparison in (">", ">=")
    bounds_below = condition.comparison in (">", ">=") if slopes[rank] > 0 else condition.comparison in ("<", "<=")
    return bounds_below if descending else bounds_above


def order_conditions(family: Family) -> Sequence[Condition]:
    """Return the filters that order two ranks of the family, for which the direction of a sweep matters."""
    return [
        condition
        for einsum in family.cascade.einsums
        for condition in einsum.conditions
        if len(family.members.intersection(condition.ranks)) > 1
    ]
