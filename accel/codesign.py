"""Co-design files: exponentials, array shapes, vector widths and buffers to choose from at a given area; plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accel.errors import InputError
from accel.polynomial_exp import PolynomialExp
from accel.presets import load_preset, preset_names

__all__ = ["AccuracyTest", "DesignSpace", "design_space_names", "load_design_space"]


def _positive(value: int | float, name: str) -> None:
    if value <= 0:
        raise InputError(f"{name} must be positive, not {value}", field=(name,))


@dataclass(frozen=True, kw_only=True)
class AccuracyTest:
    """How the error of an exponential is measured: attention cascades in bfloat16 against float64.

    Parameters
    ----------
    queries, keys, dim, tile : int
        P, M, E = F, and the keys of a tile where a cascade has one; the tile divides the keys.
    score_deviations : tuple of float
        Standard deviations of the scores, for each of which Q, K and V are drawn from normal distributions.
    seed : int
        Of the draw.
    budget : float
        What the error of a row may be, relative to that with the exponential of the reference design.

    Raises
    ------
    InputError
        A number is not positive, or the tile does not divide the keys.
    """

    queries: int
    keys: int
    dim: int
    tile: int
    score_deviations: tuple[float, ...]
    seed: int
    budget: float

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every number."""
        for name in ("queries", "keys", "dim", "tile", "budget"):
            _positive(getattr(self, name), name)
        if self.keys % self.tile:
            raise InputError(f"tile must divide keys = {self.keys}, but {self.tile} does not", field=("tile",))
        if not self.score_deviations:
            raise InputError("score_deviations must hold at least one number", field=("score_deviations",))
        for value in self.score_deviations:
            _positive(value, "score_deviations")
        if self.seed < 0:
            raise InputError(f"seed must be 0 or more, not {self.seed}", field=("seed",))


@dataclass(frozen=True, kw_only=True)
class DesignSpace:
    """What to choose from.

    The 2D array gets as many rows as the area allows: fewer are never faster.

    Parameters
    ----------
    name, description : str
        What reports call it, and what it stands for.
    array, vector : str
        The array of several rows whose shape is chosen, and the one of one row whose width is.
    reference : PolynomialExp
        The exponential of the reference design.
    exponentials : tuple of PolynomialExp
        Exponentials to choose from.
    least_columns, most_columns : int
        Columns of the array: every number from the one to the other.
    vector_parts : tuple of int
        Width of the vector array: columns divided by each of these, rounded up.
    buffer_bits : tuple of int
        Capacities of the buffer, none above that of the reference design.
    evaluations : int
        Designs whose schedules are searched, at most.
    accuracy : AccuracyTest
        How the error of an exponential is measured.

    Raises
    ------
    InputError
        A list is empty, a number is below 1, or the columns are in the wrong order.
    """

    name: str
    description: str
    array: str
    vector: str
    reference: PolynomialExp
    exponentials: tuple[PolynomialExp, ...]
    least_columns: int
    most_columns: int
    vector_parts: tuple[int, ...]
    buffer_bits: tuple[int, ...]
    evaluations: int
    accuracy: AccuracyTest

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        for name in ("exponentials", "vector_parts", "buffer_bits"):
            if not getattr(self, name):
                raise InputError(f"{name} must hold at least one value", field=(name,))
        for name in ("vector_parts", "buffer_bits"):
            for value in getattr(self, name):
                _positive(value, name)
        for name in ("least_columns", "most_columns", "evaluations"):
            _positive(getattr(self, name), name)
        if self.least_columns > self.most_columns:
            raise InputError(
                f"most_columns must be at least least_columns = {self.least_columns}, not {self.most_columns}",
                field=("most_columns",),
            )


def load_design_space(name_or_path: str | Path) -> DesignSpace:
    """Return a packaged design space by name, or the one of a file; raises ``InputError`` as ``load_preset``."""
    return load_preset(DesignSpace, "codesign", name_or_path, what="a design space")


def design_space_names() -> tuple[str, ...]:
    """Return the names of the packaged design spaces."""
    return preset_names("codesign")
