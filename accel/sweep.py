"""Sweep files: which designs and workloads to explore, and what the best of them have least of, as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Discriminator, Tag

from accel import spec
from accel.errors import InputError

__all__ = [
    "ArchitectureSpace",
    "Measure",
    "Method",
    "Range",
    "Sampler",
    "Scalar",
    "SweepFile",
    "Variation",
    "WorkloadSpace",
    "load_sweep_file",
]

Scalar = bool | int | float | str
"""A value of one field of an architecture."""

MOST_VALUES = 100_000
"""Most values of one range, so that a slip in ``step`` is an error rather than a machine out of memory."""

MOST_POINTS = 1_000_000
"""Most points of a grid; larger spaces take a sampler."""


class Measure(StrEnum):
    """What a Pareto front compares, less being better; the unit is in the name."""

    LATENCY_S = "latency_s"
    LATENCY_CYCLES = "latency_cycles"
    ENERGY_PJ = "energy_pj"
    BUFFER_SIZE_BITS = "buffer_size_bits"
    """Capacity of the buffer."""
    BUFFER_USED_BITS = "buffer_used_bits"
    """Most of it that the best schedule fills."""
    TRAFFIC_BITS = "traffic_bits"
    """To and from DRAM."""
    PES = "pes"
    """PEs of all arrays: a stand-in for their area."""


class Method(StrEnum):
    """How a sampler picks its next points."""

    NSGA2 = "nsga2"
    """A genetic algorithm for several measures (Deb et al., 2002)."""
    TPE = "tpe"
    """Tree-structured Parzen estimators (Bergstra et al., 2011; for several measures Ozaki et al., 2020)."""
    RANDOM = "random"
    """Evenly, without learning from results: what the other two must beat."""


def _exact(number: int | float) -> Fraction:
    """Return the number as it is written: three steps of 0.1 from 0 end at 0.3, not above it by a rounding error."""
    return Fraction(str(number))


@dataclass(frozen=True, kw_only=True)
class Range:
    """Evenly or geometrically spaced numbers.

    Parameters
    ----------
    first, last : int or float
        The first number, and one that none is above.
    step : int or float, optional
        Difference of neighbours; positive.
    factor : int or float, optional
        Ratio of neighbours; above 1.

    Raises
    ------
    InputError
        Neither or both of step and factor are given, one is out of range, or the range is empty or too long.
    """

    first: int | float
    last: int | float
    step: int | float | None = None
    factor: int | float | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field, and that the numbers can be counted."""
        for name in ("first", "last", "step", "factor"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise InputError(f"{name} must be a finite number, not {value}", field=(name,))
        if (self.step is None) == (self.factor is None):
            given = "neither is given" if self.step is None else "both are given"
            raise InputError(
                f"a range must have either step or factor, but {given}",
                hint="step: 64 adds 64 each time, factor: 2 doubles",
            )
        if self.step is not None and self.step <= 0:
            raise InputError(f"step must be positive, not {self.step}", field=("step",))
        if self.factor is not None and self.factor <= 1:
            raise InputError(f"factor must be above 1, not {self.factor}", field=("factor",))
        if self.factor is not None and self.first <= 0:
            raise InputError(
                f"first must be positive where neighbours have a factor, not {self.first}", field=("first",)
            )
        if self.last < self.first:
            raise InputError(f"last must be at least first ({self.first}), not {self.last}", field=("last",))
        count = self._count()
        if count > MOST_VALUES:
            raise InputError(
                f"a range must have at most {MOST_VALUES:,} numbers, not {count:,}", hint="raise step or factor"
            )

    def _count(self) -> int:
        """Return how many numbers there are; for a factor an estimate where it is far beyond what is allowed."""
        if self.step is not None:
            return int((_exact(self.last) - _exact(self.first)) / _exact(self.step)) + 1
        assert self.factor is not None
        estimate = (math.log(self.last) - math.log(self.first)) / math.log1p(self.factor - 1) + 1
        return int(estimate) if estimate > MOST_VALUES else len(self._powers())

    def _powers(self) -> list[int | float]:
        assert self.factor is not None
        number, factor, last = _exact(self.first), _exact(self.factor), _exact(self.last)
        found: list[int | float] = []
        while number <= last:
            found.append(self._plain(number))
            number *= factor
        return found

    def _plain(self, number: Fraction) -> int | float:
        floats = any(isinstance(each, float) for each in (self.first, self.step, self.factor))
        return float(number) if floats else int(number)

    @cached_property
    def values(self) -> tuple[int | float, ...]:
        """The numbers, ascending; whole ones if first and step or factor are whole."""
        if self.step is None:
            return tuple(self._powers())
        first, step = _exact(self.first), _exact(self.step)
        return tuple(self._plain(first + index * step) for index in range(self._count()))


def _kind(given: Any) -> str:
    return "range" if isinstance(given, Mapping | Range) else "list"


# The form decides which of the two is meant, so that a mistake in a range is not told as one in a list too.
_Form = Discriminator(_kind)
Values = Annotated[Annotated[tuple[Scalar, ...], Tag("list")] | Annotated[Range, Tag("range")], _Form]
Sizes = Annotated[Annotated[tuple[int, ...], Tag("list")] | Annotated[Range, Tag("range")], _Form]


@dataclass(frozen=True, kw_only=True)
class Variation:
    """One axis of a space of architectures: fields that take the same values together.

    Parameters
    ----------
    fields : tuple of str
        Dotted paths of fields of the architecture, such as ``arrays.2d.rows``. Several keep equal, as the rows and the
        columns of a square array.
    values : tuple of Scalar, or Range
        What they take, one after the other.

    Raises
    ------
    InputError
        There is no field or no value, or a value stands twice.
    """

    fields: tuple[str, ...]
    values: Values

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check that there is something to vary."""
        if not self.fields:
            raise InputError("fields must name at least one field", hint="such as buffer.size_bits", field=("fields",))
        _check_distinct(self.choices, "values")

    @cached_property
    def choices(self) -> tuple[Scalar, ...]:
        """The values, those of a range written out."""
        return self.values.values if isinstance(self.values, Range) else self.values


def _check_distinct(values: tuple[Scalar, ...], name: str) -> None:
    if not values:
        raise InputError(f"{name} must hold at least one value", field=(name,))
    seen: set[tuple[bool, Scalar]] = set()
    for index, value in enumerate(values):
        key = (isinstance(value, bool), value)  # True equals 1, but means something else
        if key in seen:
            raise InputError(
                f"{name} must hold each value once, but {value} stands twice",
                hint="remove one of the two",
                field=(name, index),
            )
        seen.add(key)


@dataclass(frozen=True, kw_only=True)
class ArchitectureSpace:
    """An architecture and what is changed in it: every combination of its variations.

    Parameters
    ----------
    base : str
        Name or file of the architecture; a file is relative to the sweep file.
    fixed : mapping of str to Scalar
        Dotted path of a field to a value other than the base's.
    vary : tuple of Variation
        What takes several values; the last varies fastest.

    Raises
    ------
    InputError
        A field is set twice.
    """

    base: str
    fixed: Mapping[str, Scalar] = field(default_factory=dict)
    vary: tuple[Variation, ...] = ()

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check that each field has one source of its value."""
        seen = set(self.fixed)
        for index, variation in enumerate(self.vary):
            for position, path in enumerate(variation.fields):
                if path in seen:
                    raise InputError(
                        f"field {path!r} must be set once, but is set twice",
                        hint="remove one of the two",
                        field=("vary", index, "fields", position),
                    )
                seen.add(path)

    @property
    def size(self) -> int:
        """Architectures in the space."""
        return math.prod(len(variation.choices) for variation in self.vary)


@dataclass(frozen=True, kw_only=True)
class WorkloadSpace:
    """The attention of one layer of a model, in every combination of sizes.

    Parameters
    ----------
    model : Path
        ``config.json`` of a Hugging Face model; relative to the sweep file.
    batches : tuple of int, or Range
        Sequences.
    lengths : tuple of int, or Range, optional
        Keys, and queries too; by default the model's own length.
    queries : tuple of int, or Range, optional
        Queries where they are fewer than keys, such as 1 for decoding.

    Raises
    ------
    InputError
        A list is empty, holds a value twice, or a size is no whole number of at least 1.
    """

    model: Path
    batches: Sizes = (1,)
    lengths: Sizes | None = None
    queries: Sizes | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every size."""
        for name in ("batches", "lengths", "queries"):
            given = getattr(self, name)
            if given is None:
                continue
            _check_distinct(given.values if isinstance(given, Range) else given, name)
            for value in given.values if isinstance(given, Range) else given:
                if not isinstance(value, int) or value < 1:
                    raise InputError(f"{name} must be whole numbers of at least 1, not {value}", field=(name,))

    @property
    def sizes(self) -> tuple[tuple[int, int | None, int | None], ...]:
        """Batch, length and queries of each workload; None stands for the model's own."""
        axes = [
            (None,) if given is None else tuple(map(int, given.values)) if isinstance(given, Range) else given
            for given in (self.batches, self.lengths, self.queries)
        ]
        batches, lengths, queries = axes
        return tuple((int(batch or 1), length, query) for batch in batches for length in lengths for query in queries)


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """How points are picked where there are too many to try all of them.

    Parameters
    ----------
    method : Method
        How the next points follow from the results so far.
    points : int
        Points to try for each workload, those met again included; at least 1.
    generation : int
        Points that are picked together, before the results of any of them are known; at least 2. It does not depend on
        the number of workers, and so neither do the points.
    seed : int
        Of all chance; 0 or more.

    Raises
    ------
    InputError
        A number is out of range.
    """

    method: Method
    points: int
    generation: int = 32
    seed: int = 0

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every number."""
        for name, least, most in (("points", 1, MOST_POINTS), ("generation", 2, MOST_POINTS), ("seed", 0, 2**32 - 1)):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InputError(f"{name} must be {least} to {most}, not {value}", field=(name,))


@dataclass(frozen=True, kw_only=True)
class SweepFile:
    """Everything one sweep needs.

    A *design* is a cascade on an architecture, scheduled for one objective; a *point* is a design for one workload.

    Parameters
    ----------
    name : str
        Of the sweep, for titles.
    architectures : tuple of ArchitectureSpace
        What to run on.
    workloads : tuple of WorkloadSpace
        What to run.
    cascades : tuple of str
        Names or files of the cascades to schedule; a file is relative to the sweep file.
    objectives : tuple of str
        What the schedule of a point has least of, as ``einrtl map --objective``.
    minimise : tuple of Measure
        What the Pareto front of a workload compares.
    sampler : Sampler, optional
        Picks points; without one all are tried.

    Raises
    ------
    InputError
        A list is empty or holds a value twice, or there are too many points for a grid.
    """

    name: str
    architectures: tuple[ArchitectureSpace, ...]
    workloads: tuple[WorkloadSpace, ...]
    cascades: tuple[str, ...] = ("attention-1pass",)
    objectives: tuple[str, ...] = ("latency",)
    minimise: tuple[Measure, ...] = (Measure.LATENCY_S, Measure.ENERGY_PJ, Measure.BUFFER_SIZE_BITS)
    sampler: Sampler | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the lists and the number of points."""
        for name in ("architectures", "workloads"):
            if not getattr(self, name):
                raise InputError(f"{name} must hold at least one value", field=(name,))
        for name in ("cascades", "objectives", "minimise"):
            _check_distinct(getattr(self, name), name)
        if self.sampler is None and self.size > MOST_POINTS:
            raise InputError(
                f"a grid must have at most {MOST_POINTS:,} points, not {self.size:,}",
                hint="take values out, or add sampler: {method: nsga2, points: 1000}",
            )

    @property
    def designs(self) -> int:
        """Designs in the space."""
        return sum(space.size for space in self.architectures) * len(self.cascades) * len(self.objectives)

    @property
    def size(self) -> int:
        """Points in the space."""
        return self.designs * sum(len(space.sizes) for space in self.workloads)


def load_sweep_file(path: Path) -> SweepFile:
    """Return the sweep file at ``path``, file names as they stand in it.

    Raises
    ------
    InputError
        With every problem of the file.
    """
    return spec.load(SweepFile, path)
