"""Configurations: architectures with the schedules of attention and linear layers that a study compares; plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from accel.errors import InputError
from accel.nest import EinsumNest, Nest, Overflow, TensorStore, TileLoop
from accel.presets import load_preset, preset_names

__all__ = [
    "Configuration",
    "LinearNest",
    "NestCase",
    "PipelineCase",
    "RegisterCount",
    "Study",
    "SweepPoint",
    "Transformer",
    "load_study",
    "study_names",
]


def _evaluate(terms: Mapping[str, float], sizes: Mapping[str, float]) -> float:
    """Return a sum of terms: product of sizes, divided by others (``2*E/M1``), to its factor."""
    total = 0.0
    for term, factor in terms.items():
        above, *below = term.split("/")
        value = factor * math.prod(float(sizes.get(each, each)) for each in above.split("*"))
        total += value / math.prod(float(sizes.get(each, each)) for each in below)
    return total


def _check_terms(terms: Mapping[str, float], name: str) -> None:
    for term in terms:
        for symbol in term.replace("*", "/").split("/"):
            if symbol not in RegisterCount.SYMBOLS and not symbol.isdigit():
                raise InputError(
                    f"a term must be made of {', '.join(RegisterCount.SYMBOLS)} and numbers, but {term!r} has "
                    f"{symbol!r}",
                    hint="write products as E*M0 and quotients as E/M1",
                    field=(name, term),
                )


@dataclass(frozen=True, kw_only=True)
class RegisterCount:
    """Accesses to the registers of one PE for one tile of ``M0`` keys by ``P0`` queries.

    The symbols of a term are the sizes E, F, M0 and P0 and the number M1 of key tiles.

    Parameters
    ----------
    array : str
        The array.
    component : str
        Component of the cost table with actions ``read`` and ``write``.
    reads, writes : mapping of str to float
        Term to its factor; their sum is the number of accesses.
    instances : mapping of str to float
        PEs that are charged, as a sum of terms.
    per : str
        ``tile`` of scores, or ``operation`` of a linear layer: one multiply-accumulate in each PE.
    source : str
        Where the counts come from.

    Raises
    ------
    InputError
        A term has an unknown symbol, or ``per`` is another word.
    """

    array: str
    component: str
    reads: Mapping[str, float]
    writes: Mapping[str, float]
    instances: Mapping[str, float]
    source: str
    per: str = "tile"

    SYMBOLS = ("E", "F", "M0", "P0", "M1", "K")

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the terms."""
        for name in ("reads", "writes", "instances"):
            _check_terms(getattr(self, name), name)
        if self.per not in ("tile", "operation"):
            raise InputError(f"per must be tile or operation, not {self.per!r}", field=("per",))

    def accesses(self, sizes: Mapping[str, float]) -> tuple[float, float]:
        """Return the reads and writes of all charged PEs for one tile."""
        instances = _evaluate(self.instances, sizes)
        return instances * _evaluate(self.reads, sizes), instances * _evaluate(self.writes, sizes)


@dataclass(frozen=True, kw_only=True)
class PipelineCase:
    """Attention through one pipeline of tiles.

    Parameters
    ----------
    template : str
        Schedule template.
    tiles : mapping of str to int
        Its tile sizes but one.
    fitted : str
        The other: the largest divisor of the tiles along its rank for which the buffer suffices.
    fitted_to_bits : int
        Size of the buffer for which it is fitted, which need not be that of the architecture.
    """

    template: str
    tiles: Mapping[str, int]
    fitted: str
    fitted_to_bits: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class NestCase:
    """Attention as a nest, for some models and lengths; the first case that fits is taken.

    Parameters
    ----------
    models : tuple of str
        Models for which it holds; all if empty.
    lengths : tuple of int
        Sequence lengths for which it holds; all if empty.
    stages, loops, einsums, tensors, overflow
        The nest, as in ``accel.nest.Nest``.
    """

    stages: tuple[tuple[str, ...], ...]
    loops: Mapping[str, TileLoop]
    einsums: Mapping[str, EinsumNest]
    tensors: Mapping[str, TensorStore]
    overflow: Overflow = Overflow.REFUSED
    models: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the nest."""
        assert self.nest

    @property
    def nest(self) -> Nest:
        """The nest."""
        return Nest(
            stages=self.stages, loops=self.loops, einsums=self.einsums, tensors=self.tensors, overflow=self.overflow
        )

    def holds(self, model: str, length: int) -> bool:
        """Return whether the case is for a model at a length."""
        return (not self.models or model in self.models) and (not self.lengths or length in self.lengths)


@dataclass(frozen=True, kw_only=True)
class LinearNest:
    """How linear layers run: outputs stationary on one array, activations and weights staged in the buffer.

    Parameters
    ----------
    array : str
        The array.
    tile : int
        Rows and columns of an output tile.
    row_blocks : mapping of str to mapping of str to int
        Model, then layer (query, key, value, output, up, down), to the rows of activations that stay in the buffer
        while its weights, fetched again for each block, pass. A layer that is not named keeps its weights instead.
    """

    array: str
    tile: int
    row_blocks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One machine and how it runs a Transformer layer.

    Parameters
    ----------
    name : str
        What reports call it.
    description : str
        What it stands for.
    architecture, technology, cascade : str
        By name.
    linear : LinearNest
        How linear layers run.
    registers : tuple of RegisterCount
        What is charged for the registers of PEs.
    pipeline : PipelineCase, optional
        How attention runs; or
    nests : tuple of NestCase
        how it runs in stages.

    Raises
    ------
    InputError
        Both or none of ``pipeline`` and ``nests`` are given.
    """

    name: str
    description: str
    architecture: str
    technology: str
    cascade: str
    linear: LinearNest
    registers: tuple[RegisterCount, ...]
    pipeline: PipelineCase | None = None
    nests: tuple[NestCase, ...] = ()

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check that attention runs in one way."""
        if (self.pipeline is None) == (not self.nests):
            raise InputError("a configuration must have either a pipeline or nests", field=("pipeline",))

    def nest(self, model: str, length: int) -> Nest:
        """Return the nest of a model at a length.

        Raises
        ------
        InputError
            No case is for it.
        """
        for case in self.nests:
            if case.holds(model, length):
                return case.nest
        raise InputError(
            f"configuration {self.name!r} must have a nest for {model} at length {length}", hint="add a case"
        )


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """The sizes of one encoder layer.

    Parameters
    ----------
    hidden, heads, head_dim, ffn : int
        Width D, heads, E = F, and inner width of the feed-forward network.
    """

    hidden: int
    heads: int
    head_dim: int
    ffn: int

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """One size of the array in a sweep.

    Parameters
    ----------
    side : int
        Rows and columns of the 2D array, and columns of the 1D array.
    models : tuple of str
        Models to which it applies.
    buffer_bits : int
        Size of the buffer.
    registers : str
        Area entry of the registers of a PE of the 2D array.
    """

    side: int
    models: tuple[str, ...]
    buffer_bits: int
    registers: str

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Study:
    """Configurations compared under one cost setting.

    Parameters
    ----------
    name : str
        The setting.
    description : str
        What it charges and where that comes from.
    batch : int
        Sequences.
    lengths : tuple of int
        Sequence lengths, queries and keys alike.
    models : mapping of str to Transformer
        Models by name.
    configurations : tuple of Configuration
        In the order of the comparison.
    baselines : tuple of str
        Configurations that the others are compared with.
    sweep_configuration : str
        The configuration whose array is resized.
    sweep_length : int
        Sequence length of the sweep.
    sweep_area : mapping of str to int
        Parts of a PE of the 2D array besides its registers.
    sweep : tuple of SweepPoint
        The sizes.
    """

    name: str
    description: str
    batch: int
    lengths: tuple[int, ...]
    models: Mapping[str, Transformer]
    configurations: tuple[Configuration, ...]
    baselines: tuple[str, ...]
    sweep_configuration: str
    sweep_length: int
    sweep_area: Mapping[str, int]
    sweep: tuple[SweepPoint, ...]

    __pydantic_config__ = {"extra": "forbid"}


def load_study(name_or_path: str | Path) -> Study:
    """Return a packaged study by its setting, or the one of a file; raises ``InputError`` as ``load_preset``."""
    return load_preset(Study, "study", name_or_path, what="a study")


def study_names() -> tuple[str, ...]:
    """Return the settings of the packaged studies."""
    return preset_names("study")
