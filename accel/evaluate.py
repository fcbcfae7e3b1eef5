"""Runs a cascade in numpy: contractions as matrix products, the rest by broadcasting, loops over iterative ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from accel.arithmetic import COMPARE, DTYPES, MAP, Arithmetic, Array, top
from accel.errors import InputError, Problem, did_you_mean
from accel.expression import (
    Access,
    Expression,
    Index,
    Number,
    Operation,
    RankValue,
    SizeValue,
    expression_ranks,
    nodes,
    size_symbol,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from accel.cascade import Cascade, Einsum, Stage
    from accel.numerics import FixedPoint

__all__ = ["DTYPES", "evaluate"]

_IDENTITY = {"add": 0.0, "max": -math.inf, "min": math.inf, "top": -math.inf}
_REDUCE = {"add": np.add, "max": np.maximum, "min": np.minimum}


def evaluate(
    cascade: Cascade,
    inputs: Mapping[str, ArrayLike],
    sizes: Mapping[str, int],
    dtype: DTypeLike | FixedPoint = "float64",
    *,
    keep: Iterable[str] = (),
    parameters: Mapping[str, float] | None = None,
    operators: Mapping[str, Callable[..., Array]] | None = None,
) -> dict[str, Array]:
    """Return the outputs of ``cascade`` and the tensors named in ``keep``; see ``Cascade.evaluate``.

    Floating-point exceptions raise nothing: an overflow gives an infinity, an undefined result NaN, as in hardware.

    Parameters
    ----------
    cascade, inputs, sizes, dtype, keep, parameters
        As for ``Cascade.evaluate``.
    operators : mapping of str to callable, optional
        Operator of the notation (``exp``) to what computes it instead: a function of arrays in the type that the
        evaluation calculates in, which is float32 for bfloat16. What it returns is rounded like any other result.

    Raises
    ------
    InputError
        An input is missing, unknown, of the wrong shape or has NaN; a size is missing or a tile does not divide its
        rank; ``dtype`` is neither one of ``DTYPES`` nor a fixed-point format; ``keep`` names an unknown tensor; a
        parameter or an operator is unknown; a fixed-point format refuses a value.
    """
    arithmetic = Arithmetic.of(dtype)
    wanted = _wanted(cascade, keep)
    values = _parameters(cascade, parameters or {})
    arrays = _inputs(cascade, inputs, arithmetic)
    complete = cascade.sizes({**sizes, **_shapes(cascade, arrays, sizes)})
    _refuse_partial_tiles(cascade, complete)
    run = _Run(cascade, arrays, complete, values, arithmetic, _operators(operators or {}))
    last_use = {access.tensor: n for n, stage in enumerate(cascade.stages) for e in stage.einsums for access in e.reads}
    with np.errstate(all="ignore"):
        for number, stage in enumerate(cascade.stages):
            run.stage(stage)
            for name in [name for name in run.arrays if last_use.get(name, number) <= number and name not in wanted]:
                del run.arrays[name]
    return {name: arithmetic.final(np.asarray(run.arrays[name])) for name in wanted}


def _parameters(cascade: Cascade, given: Mapping[str, float]) -> dict[str, float]:
    """Return the value of every parameter in small letters."""
    values = {each.name: float(each.default) for each in cascade.parameters if not each.is_size}
    for name, value in given.items():
        if name not in values:
            hint = did_you_mean(name, values)
            if name in cascade.symbols:
                hint = "give it among the sizes"
            raise InputError(f"cascade {cascade.name} has no parameter {name!r}", hint=hint, field=(name,))
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or math.isnan(value):
            raise InputError(f"parameter {name} must be a number, not {value!r}", hint="give a float", field=(name,))
        values[name] = float(value)
    return values


def _operators(given: Mapping[str, Callable[..., Array]]) -> Mapping[str, Callable[..., Any]]:
    """Return what computes each operator."""
    for name in given:
        if name not in MAP:
            raise InputError(f"no operator is called {name!r}", hint=did_you_mean(name, MAP), field=(name,))
    return {**MAP, **given}


def _wanted(cascade: Cascade, keep: Iterable[str]) -> tuple[str, ...]:
    wanted = tuple(dict.fromkeys((*cascade.outputs, *keep)))
    for name in wanted:
        if name not in cascade.tensors:
            raise InputError(f"cascade {cascade.name} has no tensor {name!r}", hint=did_you_mean(name, cascade.tensors))
    return wanted


def _inputs(cascade: Cascade, given: Mapping[str, ArrayLike], arithmetic: Arithmetic) -> dict[str, Array]:
    """Return the input arrays in the type of the evaluation; every wrong one is reported."""
    problems: list[Problem] = []
    arrays: dict[str, Array] = {}
    names = [tensor.name for tensor in cascade.inputs]
    for name in given:
        if name not in names:
            message = f"cascade {cascade.name} has no input {name!r}"
            problems.append(Problem(message=message, hint=did_you_mean(name, names), field=(name,)))
    for tensor in cascade.inputs:
        if tensor.name not in given:
            message = f"input {tensor} of cascade {cascade.name} is missing"
            problems.append(Problem(message=message, hint=f"give an array for {tensor.name}", field=(tensor.name,)))
            continue
        array = np.asarray(given[tensor.name])
        if array.dtype == ml_dtypes.bfloat16:
            array = array.astype(np.float32)
        if array.dtype.kind not in "fiu":
            message = f"input {tensor} must hold real numbers, not {array.dtype}"
            problems.append(Problem(message=message, hint="convert it to floats", field=(tensor.name,)))
        elif array.ndim != len(tensor.ranks):
            message = f"input {tensor} must have {len(tensor.ranks)} dimensions, but has shape {array.shape}"
            problems.append(Problem(message=message, hint="one dimension for each rank", field=(tensor.name,)))
        elif np.isnan(array).any():
            first = tuple(int(coordinate) for coordinate in np.argwhere(np.isnan(array))[0])
            message = f"input {tensor} must not hold NaN, but does at {first} ({int(np.isnan(array).sum())} in all)"
            problems.append(Problem(message=message, hint="find out where it comes from", field=(tensor.name,)))
        else:
            try:
                with np.errstate(over="ignore"):
                    arrays[tensor.name] = arithmetic.result(array.astype(arithmetic.storage))
            except InputError as error:
                message = f"input {tensor} cannot be stored: {error.problems[0].message}"
                problems.append(Problem(message=message, hint=error.problems[0].hint, field=(tensor.name,)))
    if problems:
        raise InputError.of(problems)
    return arrays


def _shapes(cascade: Cascade, arrays: Mapping[str, Array], given: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that the shapes of the inputs tell."""
    sizes: dict[str, int] = {symbol: given[symbol] for symbol in cascade.symbols if symbol in given}
    told_by = dict.fromkeys(sizes, "the sizes given")
    for tensor in cascade.inputs:
        for rank, extent in zip(tensor.ranks, arrays[tensor.name].shape, strict=True):
            symbol = size_symbol(rank)
            if sizes.setdefault(symbol, extent) != extent:
                raise InputError(
                    f"rank {rank!r} of input {tensor} must have size {sizes[symbol]} as in {told_by[symbol]}, "
                    f"not {extent} (shape {arrays[tensor.name].shape})",
                    hint="check the order of its dimensions",
                    field=(tensor.name,),
                )
            told_by.setdefault(symbol, f"input {tensor}")
    return sizes


def _refuse_partial_tiles(cascade: Cascade, sizes: Mapping[str, int]) -> None:
    for digits, rank in cascade.partitions.items():
        whole, inner = size_symbol(rank), [size_symbol(digit) for digit in digits[1:]]
        tile = math.prod(sizes[symbol] for symbol in inner)
        if sizes[whole] % tile:
            raise InputError(
                f"to evaluate cascade {cascade.name}, {'*'.join(inner)} = {tile} must divide {whole} = {sizes[whole]}",
                hint=f"use a tile size that divides {sizes[whole]}, such as {math.gcd(tile, sizes[whole])}",
            )


class _Run:
    """One evaluation: the arrays computed so far, and how to compute the next."""

    def __init__(
        self,
        cascade: Cascade,
        arrays: dict[str, Array],
        sizes: Mapping[str, int],
        parameters: Mapping[str, float],
        arithmetic: Arithmetic,
        operators: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.cascade = cascade
        self.operators = operators
        self.arrays = arrays
        self.sizes = sizes
        self.parameters = parameters
        self.arithmetic = arithmetic
        self.dtype = arithmetic.storage
        self.sum_dtype = arithmetic.accumulator

    def stage(self, stage: Stage) -> None:
        """Compute one Einsum, or the steps of a loop."""
        if stage.rank is None:
            self.write(stage.einsums[0], {})
            return
        for step in range(self.sizes[size_symbol(stage.rank)]):
            for einsum in stage.einsums:
                self.write(einsum, {stage.rank: step})

    def write(self, einsum: Einsum, bound: Mapping[str, int]) -> None:
        """Compute ``einsum`` with the ranks of ``bound`` held at a coordinate, and store the result."""
        tensor = self.cascade.tensors[einsum.name]
        value = self.result(einsum, self.value(einsum, bound))
        whole = not bound and not einsum.is_initial and einsum.iterative_rank is None
        if whole:
            self.arrays[einsum.name] = value
            return
        if einsum.name not in self.arrays:
            self.arrays[einsum.name] = np.empty(tensor.shape(self.sizes), self.dtype)
        target: list[int | slice] = []
        for index in einsum.output.indices:
            coefficients, constant = index.affine(self.sizes)
            rank = next(iter(coefficients), None)
            if rank is None:
                target.append(constant)
            elif rank in bound:
                target.append(bound[rank] + constant)
            else:
                target.append(slice(constant, constant + self.sizes[size_symbol(rank)]))
        self.arrays[einsum.name][tuple(target)] = value

    def result(self, einsum: Einsum, value: Array) -> Array:
        """Return the value of ``einsum`` as it is stored."""
        try:
            return self.arithmetic.result(value)
        except InputError as error:
            raise InputError.of(
                replace(each, message=f"{einsum.output} cannot be stored: {each.message}", place=einsum.place)
                for each in error.problems
            ) from None

    def value(self, einsum: Einsum, bound: Mapping[str, int]) -> Array:
        """Return the value of ``einsum`` over its output ranks, those of ``bound`` left out, before it is stored."""
        if einsum.reduction is not None and einsum.reduction.operator == "top":
            return self.largest(einsum, bound)
        output = tuple(rank for rank in einsum.output.ranks if rank not in bound)
        inner = tuple(rank for rank in einsum.ranks if rank not in output and rank not in bound)
        space = _Space(ranks=output + inner, bound=bound, mask=self.mask(einsum, output + inner, bound))
        operator = einsum.reduction.operator if einsum.reduction is not None else None
        if operator == "add":
            product = self.product(einsum.expression, space, output)
            if product is not None:
                return product
        full = self.points(einsum.expression, space, _IDENTITY[operator] if operator else 0.0)
        if operator is None:
            return full.astype(self.dtype)
        axes = tuple(range(len(output), full.ndim))
        wide = self.sum_dtype if operator == "add" else self.dtype
        return np.asarray(_REDUCE[operator].reduce(full, axis=axes, dtype=wide)).astype(self.dtype)

    def points(self, expression: Expression, space: _Space, outside: float) -> Array:
        """Return the value of ``expression`` at every point of ``space``, ``outside`` where its filter stops one."""
        full = self.expression(expression, space)
        if space.mask is not None:
            full = np.where(space.mask, full, self.dtype.type(outside))
        return np.broadcast_to(full, self.extents(space.ranks))

    def largest(self, einsum: Einsum, bound: Mapping[str, int]) -> Array:
        """Return the value of an Einsum that keeps the largest values along a rank of its own."""
        assert einsum.reduction is not None
        inner = tuple(rank for rank in einsum.reduction.ranks if rank not in bound)
        touched = {*expression_ranks(einsum.expression), *(rank for each in einsum.conditions for rank in each.ranks)}
        rows = tuple(rank for rank in einsum.output.ranks if rank in touched and rank not in bound)
        (own,) = (rank for rank in einsum.output.ranks if rank not in touched)
        space = _Space(ranks=rows + inner, bound=bound, mask=self.mask(einsum, rows + inner, bound))
        full = self.points(einsum.expression, space, -math.inf)
        found = top(full, self.sizes[size_symbol(own)], len(rows))
        order = [rank for rank in einsum.output.ranks if rank not in bound]
        return found.transpose([(*rows, own).index(rank) for rank in order])

    def product(self, expression: Expression, space: _Space, output: tuple[str, ...]) -> Array | None:
        """Return the sum over all but ``output`` as a chain of matrix products; None if ``expression`` is no product.

        The filter enters as a factor of zeros and ones. That is exact for finite factors only, so others get None too.
        """
        factors, divisors = _factors(expression)
        labelled = [self.labelled(factor, space) for factor in factors if _varies(factor)]
        if len(labelled) < 2:
            return None
        if space.mask is not None:
            if not all(np.isfinite(array).all() for array, _ in labelled):
                return None
            labels = tuple(rank for rank, extent in zip(space.ranks, space.mask.shape, strict=True) if extent > 1)
            kept = tuple(self.sizes[size_symbol(rank)] for rank in labels)
            labelled.append((space.mask.reshape(kept), labels))
        if set(space.ranks).difference(*(labels for _, labels in labelled)):
            return None
        result, ranks = labelled[0][0].astype(self.sum_dtype), labelled[0][1]
        for number, (array, others) in enumerate(labelled[1:], start=1):
            later = {rank for _, names in labelled[number + 1 :] for rank in names}
            result, ranks = _contract(result, ranks, array.astype(self.sum_dtype), others, later | set(output))
        result = result.transpose([ranks.index(rank) for rank in output])
        point = _Space(ranks=(), bound={}, mask=None)
        for factor in factors:
            if not _varies(factor):
                result = result * self.expression(factor, point).astype(self.sum_dtype)
        for divisor in divisors:
            result = result / self.expression(divisor, point).astype(self.sum_dtype)
        return np.asarray(result).astype(self.dtype)

    def labelled(self, expression: Expression, space: _Space) -> tuple[Array, tuple[str, ...]]:
        """Return the value of ``expression`` over the ranks that it depends on, and those ranks."""
        if isinstance(expression, Access):
            return self.read(expression, space)
        used = expression_ranks(expression)
        ranks = tuple(rank for rank in space.ranks if rank in used)
        return self.expression(expression, space).reshape(self.extents(ranks)), ranks

    def extents(self, ranks: Iterable[str]) -> list[int]:
        """Return the size of each rank."""
        return [self.sizes[size_symbol(rank)] for rank in ranks]

    def mask(self, einsum: Einsum, ranks: tuple[str, ...], bound: Mapping[str, int]) -> Array | None:
        """Return which points the filter lets through, broadcastable over ``ranks``; None where it lets all."""
        mask: Array | None = None
        for condition in einsum.conditions:
            coefficients, constant = condition.difference(self.sizes)
            value = self.affine(coefficients, constant, ranks, bound)
            passed = COMPARE[condition.comparison](value, 0)
            mask = passed if mask is None else mask & passed
        return mask

    def affine(
        self, coefficients: Mapping[str, int], constant: int, ranks: tuple[str, ...], bound: Mapping[str, int]
    ) -> Array:
        """Return ``sum(coefficient * rank) + constant`` as whole numbers that broadcast over ``ranks``."""
        value: Array = np.full((1,) * len(ranks), constant, dtype=np.int64)
        for rank, factor in coefficients.items():
            if rank in bound:
                value = value + factor * bound[rank]
            else:
                steps = np.arange(self.sizes[size_symbol(rank)], dtype=np.int64)
                value = value + (factor * steps).reshape([-1 if each == rank else 1 for each in ranks])
        return value

    def expression(self, expression: Expression, space: _Space) -> Array:
        """Return the value of ``expression``, broadcastable over the ranks of ``space``."""
        if isinstance(expression, Operation):
            operands = [self.expression(operand, space) for operand in expression.operands]
            return self.arithmetic.operation(self.operators[expression.operator](*operands))
        if isinstance(expression, RankValue):
            return self.affine({expression.rank: 1}, 0, space.ranks, space.bound).astype(self.dtype)
        if not isinstance(expression, Access):
            value = (
                expression.value
                if isinstance(expression, Number)
                else self.sizes[expression.symbol]
                if isinstance(expression, SizeValue)
                else self.parameters[expression.name]
            )
            return self.arithmetic.operation(np.full((1,) * len(space.ranks), value, self.dtype))
        array, labels = self.read(expression, space)
        order = [labels.index(rank) for rank in space.ranks if rank in labels]
        shape = [self.sizes[size_symbol(rank)] if rank in labels else 1 for rank in space.ranks]
        return array.transpose(order).reshape(shape)

    def read(self, access: Access, space: _Space) -> tuple[Array, tuple[str, ...]]:
        """Return the elements that ``access`` reads, one axis for each of its free ranks, and those ranks."""
        array = self.arrays[access.tensor]
        selectors: list[int | slice] = []
        labels: list[str] = []
        for index, extent in zip(access.indices, array.shape, strict=True):
            coefficients, start = self.folded(index, space.bound)
            ranks = tuple(coefficients)
            if not ranks and 0 <= start < extent:
                selectors.append(start)
                continue
            dense = len(ranks) == 1 and coefficients[ranks[0]] == 1
            end = start + math.prod(self.extents(ranks))
            tiles = ranks == index.digits and end == extent
            if not (dense or tiles) or start < 0 or end > extent or set(ranks) & set(labels):
                return self.gather(access, array, space)
            selectors.append(slice(start, end))
            labels.extend(ranks)
        return array[tuple(selectors)].reshape(self.extents(labels)), tuple(labels)

    def folded(self, index: Index, bound: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """Return the coefficients of the free ranks of ``index``, and its constant with bound ranks worked in."""
        coefficients, constant = index.affine(self.sizes)
        constant += sum(factor * bound[rank] for rank, factor in coefficients.items() if rank in bound)
        return {rank: factor for rank, factor in coefficients.items() if rank not in bound and factor}, constant

    def gather(self, access: Access, array: Array, space: _Space) -> tuple[Array, tuple[str, ...]]:
        """Read any affine access element by element; coordinates that the filter leaves out may lie outside."""
        tensor = self.cascade.tensors[access.tensor]
        coordinates = []
        for index, rank, extent in zip(access.indices, tensor.ranks, array.shape, strict=True):
            value = self.affine(*index.affine(self.sizes), space.ranks, space.bound)
            outside = (value < 0) | (value >= extent)
            touched = outside if space.mask is None else outside & space.mask
            if touched.any():
                first = int(np.broadcast_to(value, touched.shape)[touched][0])
                raise InputError(
                    f"{access} must stay within rank {rank!r} of {tensor}, whose coordinates are 0 to {extent - 1}, "
                    f"but reads coordinate {first}",
                    hint="leave such points out with a filter (where ...)",
                    place=access.place,
                )
            coordinates.append(np.clip(value, 0, extent - 1))
        ranks = tuple(rank for rank in space.ranks if rank in access.ranks)
        return array[tuple(coordinates)].reshape(self.extents(ranks)), ranks


@dataclass(frozen=True, kw_only=True)
class _Space:
    """The points of one Einsum: free ranks in order, ranks held at a coordinate, and the filter over the free ones."""

    ranks: tuple[str, ...]
    bound: Mapping[str, int]
    mask: Array | None


def _varies(expression: Expression) -> bool:
    """Whether ``expression`` is more than a constant."""
    return any(isinstance(node, Access | RankValue) for node in nodes(expression))


def _factors(expression: Expression) -> tuple[list[Expression], list[Expression]]:
    """Return the factors of a product, and the constants that divide it."""
    if isinstance(expression, Operation) and expression.operator == "multiply":
        left, right = map(_factors, expression.operands)
        return left[0] + right[0], left[1] + right[1]
    if isinstance(expression, Operation) and expression.operator == "divide" and not _varies(expression.operands[1]):
        factors, divisors = _factors(expression.operands[0])
        return factors, [*divisors, expression.operands[1]]
    return [expression], []


def _contract(
    left: Array, left_ranks: tuple[str, ...], right: Array, right_ranks: tuple[str, ...], keep: set[str]
) -> tuple[Array, tuple[str, ...]]:
    """Multiply two labelled arrays and sum over all ranks not in ``keep``, as one batched matrix product."""
    left, left_ranks = _sum_alone(left, left_ranks, keep | set(right_ranks))
    right, right_ranks = _sum_alone(right, right_ranks, keep | set(left_ranks))
    extents = dict(zip(left_ranks, left.shape, strict=True)) | dict(zip(right_ranks, right.shape, strict=True))
    shared = [rank for rank in left_ranks if rank in right_ranks]
    batch = [rank for rank in shared if rank in keep]
    inner = [rank for rank in shared if rank not in keep]
    rows = [rank for rank in left_ranks if rank not in shared]
    columns = [rank for rank in right_ranks if rank not in shared]

    def arranged(array: Array, ranks: tuple[str, ...], first: list[str], second: list[str]) -> Array:
        groups = [[rank] for rank in batch] + [first, second]
        shape = [math.prod(extents[rank] for rank in group) for group in groups]
        return array.transpose([ranks.index(rank) for rank in (*batch, *first, *second)]).reshape(shape)

    product = arranged(left, left_ranks, rows, inner) @ arranged(right, right_ranks, inner, columns)
    names = (*batch, *rows, *columns)
    return np.asarray(product).reshape([extents[rank] for rank in names]), names


def _sum_alone(array: Array, ranks: tuple[str, ...], keep: set[str]) -> tuple[Array, tuple[str, ...]]:
    """Sum over the ranks not in ``keep``."""
    axes = tuple(number for number, rank in enumerate(ranks) if rank not in keep)
    return np.asarray(array.sum(axis=axes)), tuple(rank for rank in ranks if rank in keep)
