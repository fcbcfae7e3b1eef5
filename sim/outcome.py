"""The outcome of a run as plain data: what the summary prints, the report shows and ``result.json`` holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from accel.arch import Architecture
from accel.softmax_unit import SoftmaxUnit
from accel.workload import AttentionModel, Workload
from mapping.passes import PassAnalysis
from mapping.search import SearchResult
from sim.accuracy import Accuracy
from sim.compare import Comparison
from sim.energy import ActionEnergy

__all__ = ["CascadeSummary", "Excerpt", "Outcome", "SimulationSpeed"]


@dataclass(frozen=True, kw_only=True)
class CascadeSummary:
    """What the analysis of one cascade found.

    Parameters
    ----------
    name : str
        Of the cascade.
    analysis : PassAnalysis
        Over the key rank.
    sizes : mapping of str to int
        Rank sizes at which operations are counted.
    operations : mapping of str to int
        Operation to how often one head executes it.
    """

    name: str
    analysis: PassAnalysis
    sizes: Mapping[str, int]
    operations: Mapping[str, int]

    @property
    def live(self) -> str:
        """The live footprint that grows with the rank, in words for each query: ``QK: M, SN: M``, or ``none``."""
        return ", ".join(f"{each.tensor}: {each.formula}" for each in self.analysis.live) or "none"


@dataclass(frozen=True, kw_only=True)
class SimulationSpeed:
    """How long the simulation took; not reproducible, for information.

    Parameters
    ----------
    build_s, run_s : float
        Seconds for compiling the simulation (0 if it was found compiled) and for running it.
    cycles : int
        Clock cycles simulated between first and last beat of all scenarios.
    """

    build_s: float
    run_s: float
    cycles: int


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """The beats that moved in a stretch of one scenario.

    Parameters
    ----------
    scenario : str
        Its name.
    first_cycle, cycles : int
        The stretch.
    inputs, outputs : tuple of (int, str)
        Cycle of each beat in it, and what it carried.
    """

    scenario: str
    first_cycle: int
    cycles: int
    inputs: tuple[tuple[int, str], ...]
    outputs: tuple[tuple[int, str], ...]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Everything that one run found.

    Parameters
    ----------
    name : str
        Of the run.
    model : AttentionModel
        As its configuration says.
    workload : Workload
        The attention of one layer.
    head : str
        Where the real scores come from.
    rows, row_length : int
        Size of the score matrix that was simulated.
    clipped : int
        Scores outside the input format, which saturate.
    cascades : tuple of CascadeSummary
        In the order of the run file.
    schedules : mapping of str to SearchResult
        Architecture to the schedule picked for it.
    unit : SoftmaxUnit
        The generated unit.
    sidecar : mapping
        What the emitted JSON file says of it.
    predicted_cycles, measured_cycles : int
        Of the free-running scenario.
    energy : tuple of ActionEnergy
        Of the actions of one scenario.
    technology : str
        Cost table of those energies.
    accuracy : Accuracy
        Against float64.
    comparisons : tuple of Comparison
        All of them.
    speed : SimulationSpeed
        Of the simulation.
    architectures : mapping of str to Architecture
        Those of ``schedules``.
    excerpts : tuple of Excerpt
        Beats around the first output of each scenario.
    error_quantiles : tuple of float
        Distances of the weights from float64, at equal shares of all weights, ascending.
    """

    name: str
    model: AttentionModel
    workload: Workload
    head: str
    rows: int
    row_length: int
    clipped: int
    cascades: tuple[CascadeSummary, ...]
    schedules: Mapping[str, SearchResult]
    unit: SoftmaxUnit
    sidecar: Mapping[str, Any]
    predicted_cycles: int
    measured_cycles: int
    energy: tuple[ActionEnergy, ...]
    technology: str
    accuracy: Accuracy
    comparisons: tuple[Comparison, ...]
    speed: SimulationSpeed
    architectures: Mapping[str, Architecture]
    excerpts: tuple[Excerpt, ...]
    error_quantiles: tuple[float, ...]

    @property
    def holds(self) -> bool:
        """Whether every comparison holds."""
        return all(comparison.holds for comparison in self.comparisons)

    @property
    def first_difference(self) -> str | None:
        """The first difference of the first comparison that fails."""
        for comparison in self.comparisons:
            if not comparison.holds:
                return f"{comparison.name}: {comparison.first_difference}"
        return None

    @property
    def energy_pj(self) -> float:
        """Energy of the simulated unit over all rows, pJ."""
        return sum(each.energy_pj for each in self.energy)

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return {
            "name": self.name,
            "holds": self.holds,
            "first_difference": self.first_difference,
            "model": asdict(self.model),
            "workload": asdict(self.workload),
            "head": self.head,
            "cascades": [
                {**each.analysis.as_dict(each.sizes), "sizes": dict(each.sizes), "operations": dict(each.operations)}
                for each in self.cascades
            ],
            "schedules": {name: _schedule(found) for name, found in self.schedules.items()},
            "softmax": {
                "rows": self.rows,
                "row_length": self.row_length,
                "clipped_scores": self.clipped,
                "predicted_cycles": self.predicted_cycles,
                "measured_cycles": self.measured_cycles,
                "technology": self.technology,
                "energy_pj": self.energy_pj,
                "actions": [asdict(each) for each in self.energy],
                "accuracy": asdict(self.accuracy) | {"max_error_bound": self.unit.max_error},
                "error_quantiles": list(self.error_quantiles),
                "sidecar": dict(self.sidecar),
            },
            "comparisons": [asdict(each) for each in self.comparisons],
            "simulation_speed": asdict(self.speed),
        }


def _schedule(found: SearchResult) -> dict[str, Any]:
    certificate = ("points_considered", "points_illegal", "points_pruned", "points_priced", "lower_bound_cycles", "gap")
    return found.result.as_dict() | {"search": {name: getattr(found, name) for name in certificate}}
