"""What the model says of a job on the spatial attention array: price, cycles and actions, in the hardware's terms."""

from __future__ import annotations

from collections import Counter
from math import fsum

from accel.arch import Architecture
from accel.attention_array import ACTIONS, CASCADE, AttentionArray, Job
from accel.cascade import load_cascade
from accel.cost import CostTable
from accel.result import ActionCount, Result
from accel.schedule import Schedule
from accel.workload import Workload
from mapping.model import price

__all__ = ["array_schedule", "model_actions", "model_energies", "price_array", "workload_of"]


def array_schedule(unit: AttentionArray, architecture: Architecture) -> Schedule:
    """Return the schedule that an array follows, as the mapper would have handed it on."""
    tiles = {"m0": unit.keys_per_tile, "p1": unit.query_tiles, "p0": unit.queries_per_tile}
    return Schedule(cascade=CASCADE, architecture=architecture.name, tiles=tiles, plan=unit.plan)


def price_array(unit: AttentionArray, architecture: Architecture, job: Job, costs: CostTable | None = None) -> Result:
    """Return what ``mapping.model.price`` says of a job, which knows nothing of the hardware.

    The model charges a causal job as one without a mask, for so does the array: it computes what is masked.

    Parameters
    ----------
    unit : AttentionArray
        The array.
    architecture : Architecture
        The one it was made from; with ``pipeline_fill: charged`` and buffer rows of one word its numbers are the
        hardware's.
    job : Job
        The job.
    costs : CostTable, optional
        Energies; by default the table that the architecture names.

    Raises
    ------
    InputError
        The schedule is illegal on the architecture, or the table lacks an entry.
    """
    schedule = array_schedule(unit, architecture)
    return price(load_cascade(CASCADE), architecture, schedule, workload_of(unit, job), costs)


def workload_of(unit: AttentionArray, job: Job) -> Workload:
    """Return a job as the model's workload: each head with keys and values of its own, as they are sent."""
    return Workload(
        name="job",
        batch=job.heads,
        heads=1,
        kv_heads=1,
        queries=job.queries,
        keys=job.keys,
        query_key_dim=unit.query_key_dim,
        value_dim=unit.value_dim,
    )


def _name(action: ActionCount) -> str | None:
    """Return an action of the model by its name in ``ACTIONS``; None if the hardware does not count it."""
    if action.unit in ("2d", "1d"):
        return f"{action.action}_{action.unit}"
    return f"{action.action}_{action.tensor.lower()}" if action.unit == "buffer" else None


def model_actions(result: Result) -> dict[str, int]:
    """Return the counts of a priced job by the names of ``ACTIONS``.

    The model charges exponentials as the multiplications and additions that they are; so it has no count of its own for
    them, and ``exp_2d`` and ``exp_1d`` are the points of SLN and PRM.
    """
    found: Counter[str] = Counter()
    for action in result.actions:
        name = _name(action)
        if name is not None:
            found[name] += action.count
    points = {each.einsum: each.points for each in result.einsums}
    found |= Counter({"exp_2d": points["SLN"], "exp_1d": points["PRM"]})
    return {action: found[action] for action in ACTIONS}


def model_energies(result: Result) -> dict[str, float]:
    """Return the energy of one action, pJ, by the names of ``ACTIONS``; exponentials are in their multiply and add.

    What a job does not do, such as the buffer reads of a tensor that never leaves the registers, has no entry.
    """
    counts: Counter[str] = Counter()
    energies: dict[str, list[float]] = {}
    for action in result.actions:
        name = _name(action)
        if name is not None:
            counts[name] += action.count
            energies.setdefault(name, []).append(action.energy_pj)
    return {name: fsum(energies[name]) / count for name, count in counts.items() if count}
