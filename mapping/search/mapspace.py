"""The map space: how large it is, and what it is made of; docs/search.md states it in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from accel.errors import InputError
from accel.schedule import Axis
from accel.workload import Workload
from mapping.passes import passes
from mapping.search.certificate import Dimension
from mapping.search.form import AXES, Form
from mapping.search.node import Configurations
from mapping.search.sizes import group_sizes, sizes_along

__all__ = ["OUTSIDE", "Limits", "MapSpace"]

OUTSIDE = (
    "keys of one query split over several instances or along both axes (split-K)",
    "query/key and value dimensions spread along an axis of an array",
    "cascades of several passes whose rows do not fit the buffer: scores through DRAM (docs/nests.md prices them)",
    "offsets between the least and the latest; several copies of an input",
)
"""What the space does not hold."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How large the space is, and how long the search may take.

    Parameters
    ----------
    stages : int
        The most stages of an epoch.
    turns : int
        The most turns of an array that a tile takes along one axis.
    points : int, optional
        The most schedules to build. Without it the search ends when it is done. From 100 on the tile sizes of the
        templates are looked at besides, where much is left open.
    seconds : float, optional
        The longest time. What is found then depends on the machine, its certificate does not.
    nodes : int, optional
        The most partial pipelines to visit for one binding and one choice of sizes; beyond, the rest of them is left
        open and the certificate says so.
    visits : int, optional
        The most partial pipelines to visit in all; then the search ends with the best so far.
    pipelines : int, optional
        The most pipelines to price for one binding and one choice of sizes; beyond, likewise. Where a binding can at
        best tie with the best schedule so far, one is priced.
    interruptible : bool
        Whether an interrupt of the user ends the search with what it has, instead of raising ``KeyboardInterrupt``.
    """

    stages: int = 4
    turns: int = 8
    points: int | None = 100
    seconds: float | None = None
    nodes: int | None = 20_000
    visits: int | None = 400_000
    pipelines: int | None = 8
    interruptible: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        for name in ("stages", "turns", "points", "seconds", "nodes", "visits", "pipelines"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InputError(f"{name} must be positive, not {value}", hint="leave it out", field=(name,))


class MapSpace:
    """The dimensions of the space for one cascade, architecture and workload."""

    def __init__(self, form: Form, workload: Workload, fixed: Mapping[str, int], limits: Limits) -> None:
        self.form, self.workload, self.fixed, self.limits = form, workload, fixed, limits
        for rank in (form.key, form.row):
            if rank.upper() not in workload.sizes:
                raise InputError(
                    f"workload {workload.name!r} must give the size of rank {rank!r}, but gives "
                    f"{', '.join(workload.sizes)}",
                    hint="use a cascade over the ranks p, m, e and f",
                )
        self.keys, self.rows = workload.sizes[form.key.upper()], workload.sizes[form.row.upper()]
        tile = fixed.get(form.digits[-1], self.keys)
        if form.whole_keys and tile < self.keys:
            raise InputError(
                f"tile size {form.digits[-1]} must be {self.keys}, all keys, for cascade {form.cascade.name!r}, which "
                f"goes over them {passes(form.cascade, form.key).passes} times, not {tile}",
                hint=f"leave it out, or fix {form.rows[-1]}",
            )
        self.configurations = Configurations.of(form)

    def sizes(self, axis: Axis, *, keys: bool) -> tuple[int, ...]:
        """Return the tile sizes along the keys or the rows."""
        part = self.form.digits[-1] if keys else self.form.rows[-1]
        if keys and self.form.whole_keys:
            return (self.keys,)
        if part in self.fixed:
            return (self.fixed[part],)
        whole = self.keys if keys else self.rows
        return sizes_along(self.form.architecture, axis, whole, self.limits.turns)

    def nodes(self) -> Iterator[tuple[tuple[Axis, Axis], tuple[int, int]]]:
        """Yield every choice of axes and tile."""
        for axes in AXES:
            for sizes in product(self.sizes(axes[0], keys=True), self.sizes(axes[1], keys=False)):
                yield axes, sizes

    def counts(self, size: int) -> tuple[int, ...]:
        """Return how many tiles of ``size`` rows may be kept, ascending."""
        part = self.form.rows[1]
        return (self.fixed[part],) if part in self.fixed else group_sizes(-(-self.rows // size))

    @property
    def homes(self) -> int:
        """Combinations of homes of the inputs."""
        return math.prod(len(self.form.homes(name)) for name in self.form.inputs)

    @property
    def pipelines(self) -> int:
        """Ways to deal the steps out to stages, the first step in the first stage, no stage empty."""
        steps = len(self.form.steps)
        return sum(_surjections(steps, count) // count for count in range(1, min(self.limits.stages, steps) + 1))

    @property
    def points(self) -> int:
        """Schedules in the space."""
        tiles = sum(len(self.counts(sizes[1])) for _, sizes in self.nodes())
        return tiles * self.homes * len(self.configurations) * self.pipelines

    def values(self) -> Mapping[str, tuple[int, ...]]:
        """Return tile rank to its sizes."""
        keys = sorted({size for axes in AXES for size in self.sizes(axes[0], keys=True)})
        rows = sorted({size for axes in AXES for size in self.sizes(axes[1], keys=False)})
        kept = sorted({count for size in rows for count in self.counts(size)})
        return {self.form.digits[-1]: tuple(keys), self.form.rows[1]: tuple(kept), self.form.rows[2]: tuple(rows)}

    def dimensions(self) -> tuple[Dimension, ...]:
        """Return what is chosen, with the number of options before and after the constraints on each alone."""
        form, arrays, steps = self.form, len(self.form.arrays), len(self.form.steps)
        values = self.values()
        key, kept, row = values
        bindings = math.prod(len(choice) for choice in form.choices)
        nodes = list(self.nodes())
        tiles = sum(len(self.counts(sizes[1])) for _, sizes in nodes)
        stages = min(self.limits.stages, steps)
        whole_rows = sum(-(-self.rows // size) for size in range(1, self.rows + 1)) if self.rows <= 1 << 16 else None
        inputs = ", ".join(f"{name} {len(form.homes(name))}" for name in form.inputs)
        return (
            Dimension(name="axes of the tile", unconstrained=2, size=2, options="keys on rows or on columns"),
            Dimension(name=f"tile {key}", unconstrained=self.keys, size=len(values[key]), options=_some(values[key])),
            Dimension(name=f"tile {row}", unconstrained=self.rows, size=len(values[row]), options=_some(values[row])),
            Dimension(
                name=f"axes, {key}, {row} and {kept} together",
                unconstrained=2 * self.keys * (whole_rows if whole_rows is not None else self.rows**2),
                size=tiles,
                options=f"{kept}: " + _some(values[kept]),
            ),
            Dimension(
                name="loop order",
                unconstrained=3,
                size=1,
                options=f"{', '.join(form.loops)}: the others equal it with one or all tiles kept",
            ),
            Dimension(name="homes of the inputs", unconstrained=self.homes, size=self.homes, options=inputs),
            Dimension(
                name="binding and homes of tiles",
                unconstrained=arrays**steps * 2 ** len(form.tiles),
                size=len(self.configurations),
                options=f"{steps} Einsums on {arrays} arrays, {bindings:,} bindings; "
                + (", ".join(form.steps[tile].name for tile in form.tiles) or "no tile")
                + " in registers or the buffer",
            ),
            Dimension(
                name="pipeline",
                unconstrained=sum(_surjections(steps, count) for count in range(1, steps + 1)),
                size=self.pipelines,
                options=f"{steps} Einsums in 1 to {stages} stages; offsets follow, interleaving is settled last",
            ),
        )


def _some(values: tuple[int, ...]) -> str:
    """Return values in words, the middle of many left out."""
    texts = [str(value) for value in values]
    return ", ".join(texts if len(texts) <= 8 else [*texts[:3], "...", *texts[-3:]])


def _surjections(things: int, boxes: int) -> int:
    return sum((-1) ** k * math.comb(boxes, k) * (boxes - k) ** things for k in range(boxes + 1))
