"""Linear layers as nests: the dataflow and the blocks that take the least time, then the least energy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from accel.arch import Architecture
from accel.cost import CostTable
from accel.errors import InputError, did_you_mean
from accel.nest import EinsumNest, Nest, Store, TensorStore, TileLoop
from accel.nest_result import NestResult
from accel.notation import parse
from accel.schedule import Axis
from mapping.nest import NestModel
from mapping.nest_price import price_nest

__all__ = ["LINEAR", "LinearChoice", "best_linear"]

LINEAR = parse("cascade linear\n  input X[r,k] W[k,n]\n  Y[r,n] = X[r,k] * W[k,n]\n", file="linear")
"""Rows times weights."""

_STREAMED = TensorStore(store=Store.DRAM, copies=2)


@dataclass(frozen=True, kw_only=True)
class LinearChoice:
    """A linear layer with the nest chosen for it.

    Parameters
    ----------
    how : str
        The dataflow and what stays in the buffer, in words.
    nest : Nest
        The nest.
    result : NestResult
        Its price.
    considered : int
        Nests that were tried, illegal ones among them.
    """

    how: str
    nest: Nest
    result: NestResult
    considered: int


def best_linear(
    architecture: Architecture, array: str, rows: int, inputs: int, outputs: int, costs: CostTable
) -> LinearChoice:
    """Return the best of a stated set of nests for a linear layer.

    Output stationary: rows and outputs on the axes of the array, either a block of rows stays in the buffer while all
    weights pass, or a block of outputs' weights stays while all rows pass. Weight stationary: inputs and outputs on the
    axes, outputs accumulate in the buffer. Blocks are powers of two times the array, up to the whole; of inputs a tile
    holds all, or halves of it.

    Parameters
    ----------
    architecture : Architecture
        The machine.
    array : str
        Its array that multiplies and adds.
    rows, inputs, outputs : int
        Rows of activations, and the weights' sides.
    costs : CostTable
        Energies.

    Raises
    ------
    InputError
        There is no such array, or no nest of the set fits the buffer; the message is that of the last one.
    """
    if array not in architecture.arrays:
        raise InputError(
            f"a linear layer must run on an array of architecture {architecture.name!r}, but {array!r} is none",
            hint=did_you_mean(array, architecture.arrays),
        )
    sizes = {"R": rows, "K": inputs, "N": outputs}
    best: tuple[float, float, str, Nest, NestResult] | None = None
    refused: InputError | None = None
    considered = 0
    for how, nest in _candidates(architecture, array, sizes):
        considered += 1
        try:
            model = NestModel(cascade=LINEAR, architecture=architecture, nest=nest, sizes=sizes)
        except InputError as error:
            refused = error
            continue
        result = price_nest(model, instances=1, costs=costs)
        if best is None or (result.latency_cycles, result.energy_pj) < best[:2]:
            best = (result.latency_cycles, result.energy_pj, how, nest, result)
    if best is None:
        assert refused is not None
        raise refused
    return LinearChoice(how=best[2], nest=best[3], result=best[4], considered=considered)


def _blocks(tile: int, whole: int) -> list[int]:
    """Return tile times powers of two, the last of which covers the whole."""
    found = [tile]
    while found[-1] < whole:
        found.append(2 * found[-1])
    return found


def _candidates(architecture: Architecture, array: str, sizes: dict[str, int]) -> Iterator[tuple[str, Nest]]:
    height, width = architecture.arrays[array].rows, architecture.arrays[array].columns
    rows, inputs, outputs = sizes["R"], sizes["K"], sizes["N"]
    depths = [depth for depth in (inputs, -(-inputs // 2), -(-inputs // 8), -(-inputs // 32)) if depth >= 1]
    for depth in dict.fromkeys(depths):
        tiles = {"r1": height, "n1": width, "k1": depth}
        part = "" if depth == inputs else f", {depth} inputs at a time"
        for block in _blocks(height, rows):
            how = f"output stationary, {min(block, rows)} rows stay{part}"
            yield how, _outputs_stay(array, tiles | {"r2": block}, ("r2", "n1", "r1", "k1"), kept="X")
        for block in _blocks(width, outputs):
            how = f"output stationary, weights of {min(block, outputs)} outputs stay{part}"
            yield how, _outputs_stay(array, tiles | {"n2": block}, ("n2", "r1", "n1", "k1"), kept="W")
    for block in _blocks(height, rows):
        yield f"weight stationary, {min(block, rows)} rows at a time", _weights_stay(array, height, width, block)


def _outputs_stay(array: str, tiles: dict[str, int], loops: tuple[str, ...], *, kept: str) -> Nest:
    """Return the nest in which sums stay in the PEs, and ``kept`` stays in the buffer within the outermost loop."""
    return Nest(
        stages=(("Y",),),
        loops={name: TileLoop(rank=name[0], size=size) for name, size in tiles.items()},
        einsums={"Y": EinsumNest(array=array, loops=loops, axes={"r": Axis.ROWS, "n": Axis.COLUMNS})},
        tensors={
            "X": _STREAMED,
            "W": _STREAMED,
            "Y": _STREAMED,
            kept: TensorStore(store=Store.DRAM, staged=True, within=loops[0]),
        },
    )


def _weights_stay(array: str, height: int, width: int, block: int) -> Nest:
    """Return the nest in which a tile of weights stays in the PEs while a block of rows passes."""
    tiles = {"r2": ("r", block), "n1": ("n", width), "k1": ("k", height)}
    return Nest(
        stages=(("Y",),),
        loops={name: TileLoop(rank=rank, size=size) for name, (rank, size) in tiles.items()},
        einsums={"Y": EinsumNest(array=array, loops=("r2", "n1", "k1"), axes={"k": Axis.ROWS, "n": Axis.COLUMNS})},
        tensors={
            "X": TensorStore(store=Store.DRAM, staged=True, within="r2"),
            "W": _STREAMED,
            "Y": TensorStore(store=Store.DRAM, staged=True, within="n1"),
        },
    )
