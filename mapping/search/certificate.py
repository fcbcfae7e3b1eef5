"""What a search returns: the best schedule, and the certificate that says what was proved about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from accel.cascade import Cascade
from accel.html_table import html_table
from accel.result import Result
from accel.schedule import Schedule
from mapping.inline import epoch_picture, front_picture

__all__ = ["Dimension", "Floor", "Front", "Objective", "SearchResult"]


class Objective(StrEnum):
    """What the best schedule has least of; ties go to lower latency, then energy, then the order of the space."""

    LATENCY = "latency"
    ENERGY = "energy"
    EDP = "edp"
    """Energy times latency."""

    def value_of(self, latency_cycles: float, energy_pj: float) -> float:
        """Return what is minimised."""
        if self is Objective.LATENCY:
            return latency_cycles
        return energy_pj if self is Objective.ENERGY else energy_pj * latency_cycles


@dataclass(frozen=True, kw_only=True)
class Floor:
    """A latency that no schedule of the space can go below.

    Parameters
    ----------
    resource : str
        ``dram``, the name of an array, or ``arrays`` for all of them with the work shared out in the best way.
    cycles : float
        Least cycles for which it is busy.
    """

    resource: str
    cycles: float


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """One choice that makes up a map space.

    Parameters
    ----------
    name : str
        What is chosen.
    unconstrained, size : int
        Options before and after the constraints that name this dimension alone, such as operators that an array lacks.
    options : str
        The options in words, or their values.
    """

    name: str
    unconstrained: int
    size: int
    options: str


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The best schedule of a space, with the certificate of the search.

    Parameters
    ----------
    objective : Objective
        What was minimised.
    result : Result
        The price of the best schedule, which it holds.
    space : mapping of str to tuple of int
        Tile rank to the sizes that were considered for it, in all combinations with the others.
    points_considered : int
        Schedules in the space.
    points_illegal : int
        Those of them that were built and found not to fit, or to break an order.
    points_pruned : int
        Those that a bound, a dominance or a constraint left out without building them.
    points_priced : int
        Those that were priced.
    floors : tuple of Floor
        Latencies that no schedule of the space can go below, by resource.
    optimal : bool
        Whether no other schedule of the space is better.
    proven_bound : float
        Value of the objective that no schedule of the space can go below: that of the result if it is optimal.
    cascade : Cascade, optional
        What the schedule computes: the cascade given, or the form that was derived from it.
    """

    objective: Objective
    result: Result
    space: Mapping[str, tuple[int, ...]]
    points_considered: int
    points_illegal: int
    points_pruned: int
    points_priced: int
    floors: tuple[Floor, ...]
    optimal: bool
    proven_bound: float
    cascade: Cascade | None = None

    @property
    def schedule(self) -> Schedule:
        """The best schedule."""
        return self.result.schedule

    @property
    def value(self) -> float:
        """Value of the objective of the best schedule."""
        return self.objective.value_of(self.result.latency_cycles, self.result.energy_pj)

    @property
    def floor_cycles(self) -> float:
        """Latency that follows from the resources alone."""
        return max(floor.cycles for floor in self.floors)

    @property
    def lower_bound_cycles(self) -> float:
        """Latency that no schedule of the space can go below, by the search or by the resources."""
        proven = self.proven_bound if self.objective is Objective.LATENCY else 0.0
        return max(self.floor_cycles, proven)

    @property
    def gap(self) -> float:
        """Latency above the lower bound, as a part of it."""
        return self.result.latency_cycles / self.lower_bound_cycles - 1

    @property
    def objective_gap(self) -> float:
        """Value of the objective above what was proved, as a part of it: 0 if optimal."""
        return self.value / self.proven_bound - 1

    def _repr_html_(self) -> str:
        counts = f"{self.points_considered:,}: {self.points_priced:,} priced, {self.points_pruned:,} pruned"
        proof = (
            "no schedule of the space is better" if self.optimal else f"at most {self.objective_gap:.2%} above the best"
        )
        rows = (*self.result.summary(), ("schedules", counts), ("proof", proof))
        caption = f"Best {self.objective} of {self.schedule.cascade} on {self.schedule.architecture}"
        return f"<div>{html_table(caption, (), rows)}{epoch_picture(self.result)}</div>"


@dataclass(frozen=True, kw_only=True)
class Front:
    """The schedules of a space that no other beats in latency, energy and occupancy of the buffer together.

    Parameters
    ----------
    results : tuple of Result
        Their prices, ascending in latency.
    points_considered, points_illegal, points_pruned, points_priced : int
        As in ``SearchResult``.
    complete : bool
        Whether no other schedule of the space belongs to the front.
    """

    results: tuple[Result, ...]
    points_considered: int
    points_illegal: int
    points_pruned: int
    points_priced: int
    complete: bool

    def _repr_html_(self) -> str:
        rows = (
            (
                ", ".join(f"{rank}={size}" for rank, size in each.schedule.tiles.items()),
                f"{each.latency_cycles:,.0f}",
                f"{each.energy_pj * 1e-9:.4g}",
                f"{sum(each.occupancy_bits.values()):,}",
            )
            for each in self.results
        )
        heads = ("tiles", "latency (cycles)", "energy (mJ)", "buffer used (bits)")
        caption = "Front of latency, energy and buffer" + ("" if self.complete else ", incomplete")
        return f"<div>{html_table(caption, heads, rows)}{front_picture(self.results)}</div>"
