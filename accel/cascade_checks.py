"""The rules that make a sequence of Einsums a cascade; each broken one is reported with its place and its way out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from accel.errors import Place, Problem, did_you_mean
from accel.expression import (
    COMPARISON_OPERATORS,
    FUNCTIONS,
    Access,
    Number,
    Operation,
    ParameterValue,
    SizeValue,
    expression_ranks,
    nodes,
    size_symbol,
)

if TYPE_CHECKING:
    from accel.cascade import Cascade, Einsum, Reduction, Tensor

__all__ = ["REDUCTIONS", "problems"]

REDUCTIONS: tuple[str, ...] = ("add", "max", "min", "top")
"""Operators that may reduce."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_ARITY = {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "negate": 1, **FUNCTIONS} | dict.fromkeys(
    COMPARISON_OPERATORS, 2
)


def problems(cascade: Cascade) -> list[Problem]:
    """Return every broken rule of ``cascade`` in the order of its text; empty when it is well-formed.

    Rules on one Einsum alone are judged first; only where all hold, those on several together.
    """
    found = [*_heading(cascade), *(problem for einsum in cascade.einsums for problem in _alone(einsum))]
    if not found:
        found = list(_writes(cascade))
    if not found:
        found = [*_order(cascade), *_outputs(cascade)]
    if not found:
        found = list(_loops(cascade))
    return found


def _heading(cascade: Cascade) -> Iterator[Problem]:
    if not _NAME.fullmatch(cascade.name):
        yield Problem(
            message=f"the name of a cascade must be small letters and digits joined by hyphens, not {cascade.name!r}",
            hint="write it as in attention-3pass",
        )
    if not cascade.einsums:
        yield Problem(message=f"cascade {cascade.name} has no Einsum", hint="write at least one, such as Z[m] = A[m]")
    seen: dict[str, Tensor] = {}
    for tensor in cascade.inputs:
        if tensor.name in seen:
            yield Problem(
                message=f"input {tensor.name} must be declared once",
                hint="remove one of the two declarations",
                place=tensor.place,
            )
        seen[tensor.name] = tensor
        yield from _rank_names(tensor)
    yield from _parameters(cascade)


def _parameters(cascade: Cascade) -> Iterator[Problem]:
    tensors = {tensor.name for tensor in cascade.inputs} | {einsum.name for einsum in cascade.einsums}
    ranks = {rank for tensor in cascade.inputs for rank in tensor.ranks}
    ranks.update(rank for einsum in cascade.einsums for rank in einsum.ranks)
    seen: set[str] = set()
    for parameter in cascade.parameters:
        name, default = parameter.name, float(parameter.default)
        if name in seen:
            message, hint = f"parameter {name} must be declared once", "remove one of the two declarations"
        elif name in tensors or name in ranks:
            what = "a tensor" if name in tensors else "a rank"
            message, hint = f"{name} is {what} and cannot be a parameter as well", "give the parameter another name"
        elif name != name.lower() and not parameter.is_size:
            message = f"a parameter must be in small letters (a real number) or in capitals (a size), not {name}"
            hint = f"write {name.lower()} or {name.upper()}"
        elif default != default or (parameter.is_size and not (default >= 1 and default.is_integer())):
            kind = "a whole number of at least 1" if parameter.is_size else "a number"
            message, hint = f"parameter {name} must be {kind}, not {default:g}", "small letters name a real number"
        else:
            seen.add(name)
            continue
        yield Problem(message=message, hint=hint, place=parameter.place)


def _rank_names(tensor: Tensor) -> Iterator[Problem]:
    for number, rank in enumerate(tensor.ranks):
        if rank != rank.lower():
            yield Problem(
                message=f"a rank must be in small letters, but {tensor} has {rank!r} ({rank} names a size)",
                hint=f"write {rank.lower()}",
                place=tensor.place,
            )
        if rank in tensor.ranks[:number]:
            yield Problem(
                message=f"the ranks of {tensor} must differ, but {rank!r} stands twice",
                hint="give the second one a name of its own",
                place=tensor.place,
            )


def _alone(einsum: Einsum) -> Iterator[Problem]:
    yield from _left_side(einsum)
    for node in nodes(einsum.expression):
        if isinstance(node, Operation) and _ARITY.get(node.operator) != len(node.operands):
            yield Problem(
                message=f"{node.operator!r} with {len(node.operands)} operands is not an operation of the notation",
                hint=did_you_mean(node.operator, _ARITY),
                place=einsum.place,
            )
        elif isinstance(node, Operation) and node.operator == "negate" and isinstance(node.operands[0], Number):
            yield Problem(
                message=f"a negated constant must be written as a negative constant, not as {node}",
                hint=f"give Number(value={-node.operands[0].value!r})",
                place=einsum.place,
            )
    yield from _reduction(einsum)


def _left_side(einsum: Einsum) -> Iterator[Problem]:
    known = set(expression_ranks(einsum.expression))
    known.update(rank for condition in einsum.conditions for rank in condition.ranks)
    seen: set[str] = set()
    special = 0
    for index in einsum.output.indices:
        if index.constant is not None:
            special += 1
            if index.constant != 0:
                yield Problem(
                    message=f"an initial value must stand at coordinate 0, not {index.constant}",
                    hint="iterative ranks count from 0",
                    place=index.place or einsum.place,
                )
            continue
        if index.shift is None or index.shift[1] not in (0, 1):
            yield Problem(
                message=f"an index on the left must be a rank, rank+1 or 0, not {index}",
                hint=f"write {index.final_symbol.lower()}"
                if index.final_symbol
                else "partition and shift where the tensor is read",
                place=index.place or einsum.place,
            )
            continue
        rank, offset = index.shift
        special += offset
        if rank in seen:
            yield Problem(
                message=f"rank {rank!r} must stand once on the left of {einsum.output}",
                hint="give the second one a name of its own",
                place=index.place or einsum.place,
            )
        seen.add(rank)
        if rank not in known and not einsum.is_initial and not _is_top(einsum):
            yield Problem(
                message=f"rank {rank!r} of {einsum.output} is not a rank of any operand",
                hint=did_you_mean(rank, known) if known else f"index an operand with {rank}",
                place=index.place or einsum.place,
            )
    if special > 1:
        yield Problem(
            message=f"one rank at most may be iterative, but {einsum.output} has {special}",
            hint="split it into two tensors",
            place=einsum.place,
        )


def _is_top(einsum: Einsum) -> bool:
    return einsum.reduction is not None and einsum.reduction.operator == "top"


def _reduction(einsum: Einsum) -> Iterator[Problem]:
    inner = tuple(rank for rank in einsum.ranks if rank not in einsum.output.ranks)
    reduction = einsum.reduction
    if reduction is None:
        if inner:
            yield Problem(
                message=f"ranks {_listed(inner)} are not on the left of {einsum.output} and must be reduced",
                hint=f"give Reduction(operator='add', ranks={inner!r})",
                place=einsum.place,
            )
        return
    wrong = list(_named_reduction(einsum, reduction, inner))
    yield from wrong
    if _is_top(einsum):
        yield from _top(einsum, reduction)
    rest = [rank for rank in inner if rank not in reduction.ranks]
    if rest and not wrong:
        noun, pronoun = ("rank", "it") if len(rest) == 1 else ("ranks", "them")
        whole = f"{reduction.operator}[{','.join(inner)}]"
        yield Problem(
            message=f"{noun} {_listed(rest)} of {einsum.output} must be reduced too: an Einsum has one reduction, and "
            f"{reduction} leaves {pronoun} out",
            hint=f"write {whole}, or reduce {_listed(rest)} in an Einsum ahead of it",
            place=reduction.place or einsum.place,
        )


def _named_reduction(einsum: Einsum, reduction: Reduction, inner: tuple[str, ...]) -> Iterator[Problem]:
    place = reduction.place or einsum.place
    if reduction.operator not in REDUCTIONS:
        yield Problem(
            message=f"a reduction must be one of {', '.join(REDUCTIONS)}, not {reduction.operator!r}",
            hint=did_you_mean(reduction.operator, REDUCTIONS),
            place=place,
        )
    for number, rank in enumerate(reduction.ranks):
        if rank in reduction.ranks[:number]:
            yield Problem(
                message=f"rank {rank!r} must be reduced once, but {reduction} names it twice",
                hint="remove one of the two",
                place=place,
            )
        elif rank in einsum.output.ranks:
            yield Problem(
                message=f"rank {rank!r} is reduced by {reduction} but stays on the left in {einsum.output}",
                hint=f"remove {rank} from one of the two",
                place=place,
            )
        elif rank not in inner:
            yield Problem(
                message=f"rank {rank!r} of {reduction} is not a rank of any operand of {einsum.output}",
                hint=did_you_mean(rank, inner) if inner else "remove the reduction",
                place=place,
            )


def _top(einsum: Einsum, reduction: Reduction) -> Iterator[Problem]:
    """Judge that the output has one rank of its own, which counts the largest values."""
    known = {*expression_ranks(einsum.expression), *(rank for each in einsum.conditions for rank in each.ranks)}
    own = [rank for rank in einsum.output.ranks if rank not in known]
    if len(own) != 1 or einsum.iterative_rank is not None or einsum.is_initial:
        given = f"{_listed(own)} of {einsum.output} are" if own else f"none of {einsum.output} is"
        if len(own) == 1:
            given = f"{einsum.output} is iterative"
        yield Problem(
            message=f"{reduction} must have one rank on the left that counts the largest values, but {given}",
            hint="write it as in T[p,j] = X[p,m] :: top[m]",
            place=reduction.place or einsum.place,
        )


def _writes(cascade: Cascade) -> Iterator[Problem]:
    """Judge that each tensor is written once, and iterative ones from an initial value on."""
    steps: dict[str, Einsum] = {}
    starts: dict[str, Einsum] = {}
    declared = {tensor.name for tensor in cascade.inputs}
    for einsum in cascade.einsums:
        name = einsum.name
        group = starts if einsum.is_initial else steps
        if name in declared:
            yield Problem(
                message=f"{name} is an input and must not be written", hint="use another name", place=einsum.place
            )
        elif name in group:
            first = group[name].place
            where = f" (first on line {first.line})" if first else ""
            yield Problem(
                message=f"tensor {name} must be written once, but is written again{where}",
                hint="give the second one a name of its own",
                place=einsum.place,
            )
        else:
            group[name] = einsum
    for name, step in steps.items():
        if step.iterative_rank is not None and name not in starts:
            rank = step.iterative_rank
            indices = ("0" if index.ranks == (rank,) else str(index) for index in step.output.indices)
            yield Problem(
                message=f"iterative tensor {name} must have an initial value at {rank} = 0",
                hint=f"write {name}[{','.join(indices)}] = VALUE ahead of it",
                place=step.place,
            )
    for name, start in starts.items():
        yield from _start_fits(name, start, steps.get(name))


def _start_fits(name: str, start: Einsum, step: Einsum | None) -> Iterator[Problem]:
    if step is None or step.iterative_rank is None:
        yield Problem(
            message=f"{start.output} is an initial value, but no Einsum builds {name} step by step",
            hint=f"write {name}[...,r+1] = ... for the iterative rank r",
            place=start.place,
        )
        return
    pairs = [(a.rank, b.shift) for a, b in zip(start.output.indices, step.output.indices, strict=False)]
    same = len(start.output.indices) == len(step.output.indices) and all(
        (a is None) == (b is None or b[1] == 1) and (a is None or (b is not None and a == b[0])) for a, b in pairs
    )
    if not same:
        yield Problem(
            message=f"the indices of {start.output} and {step.output} must agree, with 0 where the other has rank+1",
            hint="use the same ranks in the same order",
            place=start.place,
        )


def _order(cascade: Cascade) -> Iterator[Problem]:
    """Judge that all that is read was declared or written before, with the right number of indices."""
    available = {tensor.name for tensor in cascade.inputs}
    started: set[str] = set()
    declared = {parameter.name for parameter in cascade.parameters}
    for einsum in cascade.einsums:
        for read in einsum.reads:
            yield from _read(cascade, einsum, read, available, started)
        for node in nodes(einsum.expression):
            if isinstance(node, SizeValue) and node.symbol != node.symbol.upper():
                yield Problem(
                    message=f"{node.symbol} is neither a tensor without ranks, a parameter, a rank nor a size "
                    "(sizes are in capitals)",
                    hint=did_you_mean(node.symbol, {*cascade.tensors, *declared, *cascade.ranks}),
                    place=node.place or einsum.place,
                )
            elif isinstance(node, ParameterValue) and node.name not in declared:
                yield Problem(
                    message=f"{node.name} is not a declared parameter",
                    hint=did_you_mean(node.name, declared),
                    place=node.place or einsum.place,
                )
        (started if einsum.is_initial else available).add(einsum.name)


def _read(cascade: Cascade, einsum: Einsum, read: Access, available: set[str], started: set[str]) -> Iterator[Problem]:
    place = read.place or einsum.place
    tensor = cascade.tensors.get(read.tensor)
    if tensor is None:
        hint = did_you_mean(read.tensor, cascade.tensors)
        yield Problem(message=f"unknown tensor {read.tensor}: neither an input nor written", hint=hint, place=place)
        return
    if len(read.indices) != len(tensor.ranks):
        yield Problem(
            message=f"{tensor} must be read with {_count(len(tensor.ranks))}, not {len(read.indices)} as in {read}",
            hint=f"index its ranks {_listed(tensor.ranks)}" if tensor.ranks else f"write {read.tensor} alone",
            place=place,
        )
        return
    yield from _final_coordinates(tensor, read, place)
    if read.tensor in available:
        return
    if read.tensor in started and _previous_step(tensor, read):
        return
    yield Problem(
        message=f"{read} is read before {read.tensor} is written",
        hint="move the Einsum that writes it ahead of this one",
        place=place,
    )


def _final_coordinates(tensor: Tensor, read: Access, place: Place | None) -> Iterator[Problem]:
    for index, rank in zip(read.indices, tensor.ranks, strict=True):
        symbol = index.final_symbol
        if rank == tensor.iterative_rank:
            step = index.shift in ((rank, 0), (rank, 1))
            if not (step or symbol == size_symbol(rank) or index.constant == 0):
                yield Problem(
                    message=f"iterative rank {rank!r} of {tensor} must be read at {rank}, {rank}+1, 0 or "
                    f"{size_symbol(rank)}, not at {index}",
                    hint=f"read it at {size_symbol(rank)} for its final value",
                    place=index.place or place,
                )
        elif symbol is not None:
            yield Problem(
                message=f"{symbol} is past the last coordinate of rank {rank!r} of {tensor}, which is not iterative",
                hint=f"read it at {rank}, or at {symbol}-1 for its last coordinate",
                place=index.place or place,
            )


def _previous_step(tensor: Tensor, read: Access) -> bool:
    """Whether ``read`` takes the value that a step starts from, which the initial value provides."""
    for index, rank in zip(read.indices, tensor.ranks, strict=True):
        if rank == tensor.iterative_rank:
            return index.rank == rank or index.constant == 0
    return False


def _outputs(cascade: Cascade) -> Iterator[Problem]:
    written = [einsum.name for einsum in cascade.einsums]
    for number, name in enumerate(cascade.outputs):
        field = ("outputs", number)
        if name not in written:
            hint = did_you_mean(name, written)
            yield Problem(message=f"output {name} is not written by any Einsum", hint=hint, field=field)
        elif name in cascade.outputs[:number]:
            yield Problem(message=f"output {name} must be named once", hint="remove one of the two", field=field)
    if not cascade.outputs and not cascade.unread:
        yield Problem(
            message=f"cascade {cascade.name} has no output: every tensor is read again",
            hint="name the outputs: output TENSOR",
        )


def _loops(cascade: Cascade) -> Iterator[Problem]:
    """Judge that Einsums which depend on each other do so along one iterative rank, step by step."""
    for stage in cascade.stages:
        if stage.rank is None:
            continue
        members = {einsum.name for einsum in stage.einsums}
        for einsum in stage.einsums:
            if einsum.is_initial:
                yield Problem(
                    message=f"the initial value {einsum.output} depends on the steps that it starts",
                    hint="compute it from inputs",
                    place=einsum.place,
                )
            elif einsum.iterative_rank not in (None, stage.rank):
                yield Problem(
                    message=f"{', '.join(sorted(members))} depend on each other along {stage.rank!r} and "
                    f"{einsum.iterative_rank!r}, but a recurrence must have one iterative rank",
                    hint="split the recurrence",
                    place=einsum.place,
                )
            elif stage.rank not in einsum.output.ranks:
                yield Problem(
                    message=f"{einsum.output} needs every step of {stage.rank!r}, and the steps need it: "
                    f"{', '.join(sorted(members))} form a cycle",
                    hint=f"keep {stage.rank} on the left of {einsum.output}",
                    place=einsum.place,
                )
            else:
                yield from _loop_reads(cascade, einsum, stage.rank, members)


def _loop_reads(cascade: Cascade, einsum: Einsum, rank: str, members: set[str]) -> Iterator[Problem]:
    for read in einsum.reads:
        if read.tensor not in members:
            continue
        tensor = cascade.tensors[read.tensor]
        iterative = tensor.iterative_rank == rank
        allowed = ((rank, 0), (rank, 1)) if iterative else ((rank, 0),)
        for index, own in zip(read.indices, tensor.ranks, strict=True):
            if own == rank and index.shift not in allowed and not (iterative and index.constant == 0):
                yield Problem(
                    message=f"{read} is read within the steps of {rank!r} that write it: {', '.join(sorted(members))} "
                    "form a cycle",
                    hint=f"read it at {rank} or {rank}+1" if iterative else f"read it at {rank}",
                    place=read.place or einsum.place,
                )


def _count(number: int) -> str:
    return "1 index" if number == 1 else f"{number} indices"


def _listed(ranks: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(repr, ranks))
