"""Layers: one whole Transformer layer of a model on an architecture, and how its parts run; as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from accel import spec
from accel.errors import InputError

__all__ = ["FeedForward", "Layer", "LayerAttention", "Norm", "load_layer"]


class Norm(StrEnum):
    """What normalises the residual stream."""

    LAYERNORM = "layernorm"
    RMSNORM = "rmsnorm"


class FeedForward(StrEnum):
    """The feed-forward network between the two residual additions."""

    GELU = "gelu"
    """Up projection, GELU, down projection."""
    SWIGLU = "swiglu"
    """Gate and up projections, SiLU of the gate times the other, down projection."""


@dataclass(frozen=True, kw_only=True)
class LayerAttention:
    """How attention runs: a packaged schedule template with searched or given tile sizes.

    Parameters
    ----------
    cascade : str
        Name or file; a cascade with a filter makes it causal or windowed.
    tiles : mapping of str to int
        Tile sizes of the template's plan; searched for if empty.
    window : int, optional
        Keys that a query sees at most, for a cascade with a window; by default the model's own, or the cascade's.
    """

    cascade: str
    tiles: Mapping[str, int] = field(default_factory=dict)
    window: int | None = None

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer and the machine that it runs on.

    Parameters
    ----------
    name, description : str
        What reports call it, and what it stands for.
    config : str
        The ``config.json`` of a Hugging Face model; in a file, relative to the file's folder.
    architecture : str
        Name or file.
    norm : Norm
        Twice in each layer.
    feed_forward : FeedForward
        Its kind; the widths are those of the model.
    attention : LayerAttention
        How attention runs.
    length : int
        Keys.
    queries : int, optional
        Queries, the last of the keys: 1 for a step of decoding; by default all.
    batch : int
        Sequences.
    matrix_array, vector_array : str
        The array that runs linear layers, and the one that runs norms, activations and residual additions.

    Raises
    ------
    InputError
        A number is below 1, or there are more queries than keys.
    """

    name: str
    description: str
    config: str
    architecture: str
    norm: Norm
    feed_forward: FeedForward
    attention: LayerAttention
    length: int
    queries: int | None = None
    batch: int = 1
    matrix_array: str = "2d"
    vector_array: str = "1d"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the sizes."""
        for name in ("length", "queries", "batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, not {value}", field=(name,))
        if self.queries is not None and self.queries > self.length:
            raise InputError(
                f"queries must be among the {self.length} keys, but are {self.queries}",
                hint="raise length",
                field=("queries",),
            )

    @property
    def tokens(self) -> int:
        """Rows that pass through the linear layers: the queries of all sequences."""
        return self.batch * (self.length if self.queries is None else self.queries)


def load_layer(path: str | Path) -> Layer:
    """Return the layer of a file, its config found from the file's folder; raises ``InputError`` as ``spec.load``."""
    file = Path(path)
    found = spec.load(Layer, file)
    return replace(found, config=str(file.parent / found.config))
