"""Designs, and what became of them: areas, bounds, schedules and means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from accel.polynomial_exp import Counting, PolynomialExp
from mapping.beyond import BeyondPoint, mean

__all__ = ["Candidate", "CodesignResult", "Design", "Evaluated"]


@dataclass(frozen=True, kw_only=True)
class Design:
    """One choice.

    Parameters
    ----------
    rows, columns : int
        PEs of the main array along each axis.
    vector_columns : int
        PEs of the vector array.
    buffer_bits : int
        Capacity of the buffer.
    exponential : PolynomialExp
        How both arrays compute exponentials.
    """

    rows: int
    columns: int
    vector_columns: int
    buffer_bits: int
    exponential: PolynomialExp

    @property
    def name(self) -> str:
        """What its architecture is called."""
        degree = f"{self.exponential.base.value}{self.exponential.degree}"
        return f"{self.rows}x{self.columns}-{self.vector_columns}-{self.buffer_bits >> 13}KiB-exp{degree}"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A design that fits the area.

    Parameters
    ----------
    design : Design
        The design.
    area_mm2 : float
        Its area.
    bound : float
        Mean speed-up over the baseline that no schedule on it goes above.
    estimate : float
        A guess of the mean speed-up, by which designs are tried.
    """

    design: Design
    area_mm2: float
    bound: float
    estimate: float


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """A design with a schedule for each point.

    Parameters
    ----------
    candidate : Candidate
        The design.
    points : tuple of BeyondPoint
        Its best schedules.
    """

    candidate: Candidate
    points: tuple[BeyondPoint, ...]

    @cached_property
    def speedup(self) -> float:
        """Mean over the baseline of the study."""
        return mean(each.speedup_over_baseline for each in self.points)

    @cached_property
    def speedup_over_reference(self) -> float:
        """Mean over the study's own schedule on the reference design."""
        return mean(each.speedup for each in self.points)

    @cached_property
    def energy_ratio(self) -> float:
        """Mean energy relative to the study's own schedule on the reference design."""
        return mean(each.energy_ratio for each in self.points)

    @cached_property
    def most_energy_ratio(self) -> float:
        """The largest of these ratios."""
        return max(each.energy_ratio for each in self.points)

    @cached_property
    def largest_gap(self) -> float:
        """Largest gap between a latency and its bound."""
        return max(each.gap for each in self.points)


@dataclass(frozen=True, kw_only=True)
class CodesignResult:
    """What came out.

    Parameters
    ----------
    counting : Counting
        Which steps of an exponential are charged.
    area_mm2 : float
        Area of the reference design, which no design exceeds.
    reference_speedup : float
        Mean speed-up over the baseline of the study's own schedules on the reference design.
    scheduled : Evaluated
        The reference design with the best schedules found: what scheduling alone gives.
    exponential_alone : Evaluated
        The reference design with the cheapest exponential of the space, its plans those of ``scheduled``.
    evaluated : tuple of Evaluated
        The designs that were tried, the best first.
    best : Evaluated, optional
        The best design that takes no more energy, on average, than the study's own; None if none does.
    designs : int
        Designs that fit the area.
    bound : float
        Mean speed-up that no schedule on any of them exceeds.
    """

    counting: Counting
    area_mm2: float
    reference_speedup: float
    scheduled: Evaluated
    exponential_alone: Evaluated
    evaluated: tuple[Evaluated, ...]
    best: Evaluated | None
    designs: int
    bound: float
