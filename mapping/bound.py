"""A cascade bound to an architecture by a plan: all that follows before tile sizes and workload are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from accel.arch import Architecture, ComputeArray
from accel.cascade import Cascade, Einsum
from accel.errors import InputError, Problem, did_you_mean
from accel.expression import Access, Operation, accesses
from accel.schedule import Level, Plan
from mapping.mask import Mask, find_mask, mask_problems

__all__ = ["Bound", "Step", "bind"]

_FUSED = "multiply_add"
_SHIFTED_EXP = "subtract_exp"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One Einsum on its array.

    Parameters
    ----------
    einsum : Einsum
        The Einsum.
    array : str
        The array that runs it.
    operators : mapping of str to int
        Operators of the array that one point takes, and how often.
    point_cycles : int
        Cycles that one PE takes for one point.
    group, slot, order : int
        Where in the epoch it stands.
    offset : int
        Its tile offset.
    reads : tuple of Access
        What it may take from the buffer or from DRAM: all but new values that are handed on within their tile. Of the
        Einsums that read the same of a tile only the first in time takes it there (``Bound.read_before``).
    """

    einsum: Einsum
    array: str
    operators: Mapping[str, int]
    point_cycles: int
    group: int
    slot: int
    order: int
    offset: int
    reads: tuple[Access, ...]

    @property
    def name(self) -> str:
        """Name of the Einsum."""
        return self.einsum.name


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The three descriptions that were bound, and the steps that came out.

    Parameters
    ----------
    cascade, architecture, plan
        What was bound.
    steps : mapping of str to Step
        Einsum to its step, in the order of the cascade.
    """

    cascade: Cascade
    architecture: Architecture
    plan: Plan
    steps: Mapping[str, Step]

    @cached_property
    def inputs(self) -> frozenset[str]:
        """Names of the tensors that come from outside."""
        return frozenset(tensor.name for tensor in self.cascade.inputs)

    @cached_property
    def mask(self) -> Mask | None:
        """What the filters of the cascade say about tiles; None if there are none or the plan skips no tile."""
        return find_mask(self.cascade, self.plan)

    @cached_property
    def once_ranks(self) -> tuple[str, ...]:
        """Split ranks over whose tiles some Einsum does not run: it runs at their last tile only."""
        return tuple(
            rank for rank in self.plan.splits if any(rank in self.missing(step) for step in self.steps.values())
        )

    @cached_property
    def _missing(self) -> Mapping[str, tuple[str, ...]]:
        return {
            name: tuple(rank for rank in self.plan.splits if not self._loops_over(step.einsum, rank))
            for name, step in self.steps.items()
        }

    def missing(self, step: Step) -> tuple[str, ...]:
        """Return the split ranks whose loops the Einsum does not take part in."""
        return self._missing[step.name]

    def _loops_over(self, einsum: Einsum, rank: str) -> bool:
        return rank in einsum.ranks or any(part in einsum.ranks for part in self.plan.splits[rank][:-1])

    def readers(self, tensor: str) -> Iterator[tuple[Step, Access]]:
        """Yield the steps that read a tensor, once for each access."""
        for step in self.steps.values():
            for access in step.einsum.reads:
                if access.tensor == tensor:
                    yield step, access

    def steps_back(self, maker: Step, access: Access) -> int:
        """Return how many steps of the iterative rank before its own tile an access reads what ``maker`` made."""
        rank = maker.einsum.iterative_rank
        pairs = zip(maker.einsum.output.indices, access.indices, strict=True)
        return next(
            (
                made.shift[1] - read.shift[1]
                for made, read in pairs
                if made.shift is not None and read.shift is not None and made.shift[0] == rank
            ),
            1,
        )

    @cached_property
    def shelf(self) -> dict[object, object]:
        """What was worked out for some tile sizes, and holds for others with the same key."""
        return {}

    @cached_property
    def stored_reads(self) -> Mapping[Access, tuple[Step, ...]]:
        """What Einsums take from the buffer or from DRAM, and the steps that do, the first in time first."""
        found: dict[Access, list[Step]] = {}
        for step in self.steps.values():
            for access in step.reads:
                found.setdefault(access, []).append(step)
        # The sort is stable: of Einsums that begin in the same group the first of the text counts as the first.
        return {
            access: tuple(sorted(each, key=lambda step: (step.offset, step.group))) for access, each in found.items()
        }

    def read_before(self, step: Step, access: Access) -> tuple[Step, ...]:
        """Return the steps that read the same of a tile before ``step`` does, the first in time first."""
        order = self.stored_reads[access]
        return order[: order.index(step)]

    def reduced_ranks(self, step: Step) -> tuple[str, ...]:
        """Return the split ranks over whose tiles an Einsum goes on reducing into the same values."""
        reduced = set(step.einsum.reduction.ranks) if step.einsum.reduction else set()
        return tuple(rank for rank, parts in self.plan.splits.items() if {rank, *parts[:-1]} & reduced)

    @cached_property
    def circular_groups(self) -> frozenset[int]:
        """Groups whose slots read from each other for the same tile, so that no order of their turns suits all."""
        sources: dict[int, dict[int, set[int]]] = {}
        for step in self.steps.values():
            for access in step.einsum.reads:
                maker = self.steps.get(access.tensor)
                if maker is None or (maker.group, maker.offset) != (step.group, step.offset):
                    continue
                earlier = maker.einsum.iterative_rank and not self.is_fresh(access) and not access.final_ranks
                if maker.slot != step.slot and not earlier:
                    sources.setdefault(step.group, {}).setdefault(step.slot, set()).add(maker.slot)
        return frozenset(group for group, slots in sources.items() if _is_circular(slots))

    def is_fresh(self, access: Access) -> bool:
        """Return whether an access reads the very value that its Einsum makes for the same tile."""
        step = self.steps.get(access.tensor)
        return step is not None and access.indices == step.einsum.output.indices


def _is_circular(sources: Mapping[int, set[int]]) -> bool:
    try:
        TopologicalSorter(sources).prepare()
    except CycleError:
        return True
    return False


def operators(einsum: Einsum, array: ComputeArray) -> Counter[str]:
    """Return the operators of ``array`` that one point of ``einsum`` takes.

    A product that is summed is one ``multiply_add`` where the array has it, and an exponential of a difference one
    ``subtract_exp``. A product inside another operation is not what is summed.
    """
    found = Counter(einsum.map_operations)
    if _SHIFTED_EXP in array.operators:
        pairs = min(found["exp"], found["subtract"])
        found.subtract({"exp": pairs, "subtract": pairs})
        found[_SHIFTED_EXP] += pairs
    if einsum.reduction is not None:
        root = einsum.expression
        is_product = isinstance(root, Operation) and root.operator == "multiply" and bool(accesses(root))
        if einsum.reduction.operator == "add" and is_product and _FUSED in array.operators:
            found["multiply"] -= 1
            found[_FUSED] += 1
        else:
            found[einsum.reduction.operator] += 1
    return +found


def bind(cascade: Cascade, architecture: Architecture, plan: Plan) -> Bound:
    """Return the cascade bound to the architecture by the plan.

    Raises
    ------
    InputError
        An Einsum, tensor, rank, array or operator of one description is missing in another; lists every such problem.
    """
    problems = [*_unknown_names(cascade, architecture, plan), *_tensor_problems(cascade, plan)]
    problems = problems or [*mask_problems(cascade, plan)]
    if problems:
        raise InputError.of(problems)
    steps: dict[str, Step] = {}
    in_buffer = {tensor for tensor, residence in plan.residency.items() if residence.level is Level.BUFFER}
    inputs = {tensor.name for tensor in cascade.inputs}
    places = {
        name: (group_index, slot_index, order)
        for group_index, group in enumerate(plan.epoch)
        for slot_index, slot in enumerate(group.slots)
        for names in slot.values()
        for order, name in enumerate(names)
    }
    for einsum in _steps_of(cascade):
        array = architecture.arrays[plan.binding[einsum.name]]
        used = operators(einsum, array)
        reads = []
        for access in einsum.reads:
            written = None if access.tensor in inputs else cascade.einsum(access.tensor)
            handed_on = written is not None and written.iterative_rank and access.indices == written.output.indices
            stored = access.tensor in in_buffer or access.tensor in inputs
            if stored and not handed_on:
                reads.append(access)
        group, slot, order = places[einsum.name]
        steps[einsum.name] = Step(
            einsum=einsum,
            array=plan.binding[einsum.name],
            operators=dict(used),
            point_cycles=sum(count * array.operators[name].cycles for name, count in used.items()),
            group=group,
            slot=slot,
            order=order,
            offset=plan.offsets[einsum.name],
            reads=tuple(reads),
        )
    return Bound(cascade=cascade, architecture=architecture, plan=plan, steps=steps)


def _steps_of(cascade: Cascade) -> list[Einsum]:
    return [einsum for einsum in cascade.einsums if not einsum.is_initial]


def _unknown_names(cascade: Cascade, architecture: Architecture, plan: Plan) -> Iterator[Problem]:
    """Yield what is wrong with the Einsums, arrays and operators of the plan."""
    known = {einsum.name: einsum for einsum in _steps_of(cascade)}
    for name in known:
        if name not in plan.binding:
            yield Problem(
                message=f"the epoch must run every Einsum of cascade {cascade.name!r}, but lacks {name!r}",
                hint="add it to the slot of an array",
            )
    for name, array_name in plan.binding.items():
        if name not in known:
            yield Problem(
                message=f"the epoch must run Einsums of cascade {cascade.name!r}, but {name!r} is none",
                hint=did_you_mean(name, known),
            )
            continue
        if array_name not in architecture.arrays:
            yield Problem(
                message=f"Einsum {name!r} must be bound to an array of architecture {architecture.name!r}, "
                f"but {array_name!r} is none",
                hint=did_you_mean(array_name, architecture.arrays),
            )
            continue
        array = architecture.arrays[array_name]
        for operator in operators(known[name], array):
            if operator not in array.operators:
                others = [other for other, each in architecture.arrays.items() if operator in each.operators]
                yield Problem(
                    message=f"array {array_name!r} must have operator {operator!r} to run Einsum {name!r}, but has "
                    f"{', '.join(array.operators)}",
                    hint=f"bind it to {' or '.join(map(repr, others))}" if others else "add the operator to an array",
                )


def _tensor_problems(cascade: Cascade, plan: Plan) -> Iterator[Problem]:
    """Yield what is wrong with the ranks and the residency of the plan."""
    ranks = {*cascade.ranks, *cascade.partitions.values()}
    for rank, parts in plan.splits.items():
        if rank not in ranks:
            yield Problem(
                message=f"a split must cut a rank of cascade {cascade.name!r}, but {rank!r} is none",
                hint=did_you_mean(rank, ranks),
            )
        for digits, whole in cascade.partitions.items():
            if whole == rank and digits != parts:
                yield Problem(
                    message=f"rank {rank!r} must be split into {', '.join(digits)} as cascade {cascade.name!r} "
                    f"does, not into {', '.join(parts)}",
                    hint=f"write {rank}: [{', '.join(digits)}]",
                )
    tensors = {tensor.name for tensor in cascade.inputs} | {einsum.name for einsum in _steps_of(cascade)}
    for tensor in sorted(tensors - plan.residency.keys()):
        yield Problem(
            message=f"residency must say where tensor {tensor!r} lives", hint=f"add {tensor}: {{level: LEVEL}}"
        )
    for tensor in plan.residency:
        if tensor not in tensors:
            yield Problem(
                message=f"residency must name tensors of cascade {cascade.name!r}, but {tensor!r} is none",
                hint=did_you_mean(tensor, tensors),
            )
    for tensor in (each.name for each in cascade.inputs):
        residence = plan.residency.get(tensor)
        if residence is not None and residence.level is Level.REGISTERS:
            yield Problem(
                message=f"input {tensor!r} must live in the buffer or be streamed, not in registers",
                hint="use level buffer",
            )
