"""The points of one Einsum in one tile: where they lie, which PE takes them and when, and what they compute."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from accel.arch import ComputeArray
from accel.cascade import Einsum
from accel.errors import InputError
from accel.expression import Access, Expression, Index, Number, Operation, SizeValue, accesses, nodes
from accel.schedule import Axis, Plan
from sim.events.tiles import Tile

__all__ = ["IDENTITY", "REDUCE", "Array", "Grid", "compute", "coordinates", "grid", "operators"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

REDUCE: Mapping[str, Any] = {"add": np.add, "max": np.maximum, "min": np.minimum}
IDENTITY: Mapping[str, float] = {"add": 0.0, "max": -math.inf, "min": math.inf}
_COMPUTE: Mapping[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negate": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
}


def operators(einsum: Einsum, array: ComputeArray) -> Counter[str]:
    """Return the operators that one point takes: those of its expression, and one for taking it into the reduction.

    A product that is summed takes one ``multiply_add``, the exponential of a difference one ``subtract_exp``, where the
    array has them.
    """
    taken: list[str] = []
    within: list[Expression] = []  # differences that an exponential takes along
    for node in nodes(einsum.expression):
        if not isinstance(node, Operation) or not accesses(node) or any(node is each for each in within):
            continue
        first = node.operands[0]
        shifted = isinstance(first, Operation) and first.operator == "subtract" and bool(accesses(first))
        if node.operator == "exp" and shifted and "subtract_exp" in array.operators:
            within.append(first)
            taken.append("subtract_exp")
        else:
            taken.append(node.operator)
    if einsum.reduction is not None:
        root = einsum.expression
        is_product = isinstance(root, Operation) and root.operator == "multiply" and bool(accesses(root))
        if is_product and einsum.reduction.operator == "add" and "multiply_add" in array.operators:
            taken[0] = "multiply_add"
        else:
            taken.append(einsum.reduction.operator)
    return Counter(taken)


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """The points of an Einsum in a tile.

    Parameters
    ----------
    ranks : tuple of str
        The iteration ranks.
    coordinates : mapping of str to ndarray
        Rank to its coordinates, shaped to broadcast over ``ranks``.
    ordinals : ndarray[points], int
        For each point the number of points that its PE takes before it.
    """

    ranks: tuple[str, ...]
    coordinates: Mapping[str, Array]
    ordinals: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each rank."""
        return tuple(self.coordinates[rank].size for rank in self.ranks)

    @property
    def turns(self) -> int:
        """Points of the fullest PE."""
        return int(self.ordinals.max()) + 1

    def at(self, index: Index, sizes: Mapping[str, int]) -> Array:
        """Return the coordinate of an index at every point, broadcastable over ``ranks``."""
        coefficients, constant = index.affine(sizes)
        total: Array = np.full((1,) * len(self.ranks), constant)
        for rank, factor in coefficients.items():
            total = total + factor * self.coordinates[rank]
        return total


def coordinates(rank: str, plan: Plan, tile: Tile, sizes: Mapping[str, int]) -> range:
    """Return the coordinates of a tile along a rank of the cascade."""
    if rank in tile.begin:
        return range(tile.begin[rank], tile.end[rank])
    if rank in plan.tile_ranks:
        return range(tile.extent(plan.split_of[rank]))
    if rank in plan.split_of:
        return range(tile.steps[rank], tile.steps[rank] + 1)
    return range(sizes[rank.upper()])


def _axis(rank: str, plan: Plan) -> Axis | None:
    return plan.axes.get(plan.splits[rank][-1] if rank in plan.splits else rank)


def grid(ranks: tuple[str, ...], array: ComputeArray, plan: Plan, tile: Tile, sizes: Mapping[str, int]) -> Grid:
    """Return the points over ``ranks`` in a tile, dealt out to the PEs of an array.

    A rank with an axis is dealt out along it, one coordinate after the other; each PE takes its points in order of
    their coordinates.
    """
    shape = (1,) * len(ranks)
    found: dict[str, Array] = {}
    pe: Array = np.zeros(shape, dtype=np.int64)
    for position, rank in enumerate(ranks):
        values = np.arange(*_slice(coordinates(rank, plan, tile, sizes)))
        along = (*shape[:position], -1, *shape[position + 1 :])
        found[rank] = values.reshape(along)
        axis = _axis(rank, plan)
        if axis is not None:
            lanes, stride = (array.rows, array.columns) if axis is Axis.ROWS else (array.columns, 1)
            pe = pe + (np.arange(values.size) % lanes).reshape(along) * stride
    whole = tuple(found[rank].size for rank in ranks)
    taken: Counter[int] = Counter()
    ordinals = np.empty(math.prod(whole), dtype=np.int64)
    for point, where in enumerate(np.broadcast_to(pe, whole).ravel().tolist()):
        ordinals[point] = taken[where]
        taken[where] += 1
    return Grid(ranks=ranks, coordinates=found, ordinals=ordinals.reshape(whole))


def _slice(values: range) -> tuple[int, int]:
    return values.start, values.stop


def compute(
    expression: Expression, operands: Mapping[Access, Array], sizes: Mapping[str, int], shape: tuple[int, ...]
) -> Array:
    """Return the value of an expression at every point, from those of its accesses at every point."""

    def value(node: Expression) -> Array:
        if isinstance(node, Access):
            return operands[node]
        if isinstance(node, Number):
            return np.asarray(node.value)
        if isinstance(node, SizeValue):
            return np.asarray(float(sizes[node.symbol]))
        if not isinstance(node, Operation) or node.operator not in _COMPUTE:
            raise InputError(
                f"an expression must be tensors, numbers and arithmetic to be executed by events, but has {node}",
                hint="execute the cascade without it",
            )
        return _COMPUTE[node.operator](*map(value, node.operands))

    return np.broadcast_to(value(expression), shape)
