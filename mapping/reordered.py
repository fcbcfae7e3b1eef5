"""The orders of attention on p slots, priced: iterations, loads and the width of the operand port.

Edge-MoE (ICCAD 2023, arXiv 2305.18691, Table I) compares two orders that keep p query rows in work. In the unordered
one a query row is finished before the next is loaded and p different keys meet it in an iteration; in the reordered one
p query rows meet the same key. All counts are tokens: rows of Q, K or V.
"""

from __future__ import annotations

from dataclasses import dataclass

from accel.errors import InputError
from accel.reordered_cycles import job_times
from accel.reordered_schedule import AttentionJob, ReorderedSchedule
from accel.reordered_unit import ReorderedUnit

__all__ = ["OrderCost", "reordered_cost", "unit_traffic_bits", "unordered_cost"]


@dataclass(frozen=True, kw_only=True)
class OrderCost:
    """What one order needs for the scores of one head (and, with V for K, for its outputs).

    Parameters
    ----------
    iterations : int
        Steps in which p pairs of a query and a key meet.
    query_loads, key_loads : int
        Rows of Q, and of K, that are read from where they are kept.
    keys_per_iteration : int
        Rows of K that one iteration needs.
    utilisation : float
        Share of the p places of all iterations that hold a pair that counts.
    """

    iterations: int
    query_loads: int
    key_loads: int
    keys_per_iteration: int
    utilisation: float

    @property
    def loads(self) -> int:
        """All rows read."""
        return self.query_loads + self.key_loads


def reordered_cost(slots: int, job: AttentionJob) -> OrderCost:
    """Return the cost of the reordered schedule: one key for all slots, passing again and again.

    Raises
    ------
    InputError
        There is no slot.
    """
    order = ReorderedSchedule(slots=slots, job=job)
    return OrderCost(
        iterations=order.iterations,
        query_loads=job.queries,
        key_loads=order.iterations,
        keys_per_iteration=1,
        utilisation=order.utilisation,
    )


def unordered_cost(slots: int, job: AttentionJob) -> OrderCost:
    """Return the cost of finishing one query row after the other, p of its keys at a time.

    A causal mask lets it stop a row behind its last key. The last keys of a row fill their iteration only in part.

    Raises
    ------
    InputError
        There is no slot.
    """
    if slots < 1:
        raise InputError(f"slots must be at least 1, not {slots}", hint="use 1", field=("slots",))
    if job.causal:
        iterations = sum(-(-min(job.keys, query + job.offset + 1) // slots) for query in range(job.queries))
    else:
        iterations = job.queries * -(-job.keys // slots)
    return OrderCost(
        iterations=iterations,
        query_loads=job.queries,
        key_loads=job.live_pairs,
        keys_per_iteration=min(slots, job.keys),
        utilisation=job.live_pairs / (iterations * slots),
    )


def unit_traffic_bits(unit: ReorderedUnit, job: AttentionJob) -> dict[str, float]:
    """Return the traffic of the unit for one head: off chip in all, and of its memories per cycle of work.

    Raises
    ------
    InputError
        The job is longer than the unit takes.
    """
    compute = job_times(unit, [job])[0].compute_cycles
    counts = unit.actions(job, rescales=0)
    key_bits, value_bits = (unit.block * each.width_bits for each in (unit.key_format, unit.value_format))
    return {
        "queries_bits": job.queries * unit.key_features * unit.query_format.width_bits,
        "keys_bits": job.keys * unit.key_features * unit.key_format.width_bits,
        "values_bits": job.keys * unit.value_features * unit.value_format.width_bits,
        "outputs_bits": job.queries * unit.value_features * unit.output_format.width_bits,
        "key_buffer_bits_per_cycle": counts["key_read"] * key_bits / compute,
        "value_buffer_bits_per_cycle": counts["value_read"] * value_bits / compute,
    }
