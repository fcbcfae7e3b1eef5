"""The cycles of the reordered attention unit: when each job is loaded, worked on and delivered if no port waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accel.reordered_schedule import AttentionJob
from accel.reordered_unit import ReorderedUnit

__all__ = ["JobTimes", "job_times"]


@dataclass(frozen=True, kw_only=True)
class JobTimes:
    """Cycles of one job, counted from the one that accepts the first job (cycle 0).

    Parameters
    ----------
    first_read_cycle, last_read_cycle : int
        First cycle of the first iteration, and last cycle of the last one.
    first_output_cycle, last_output_cycle : int
        When the first beat of the first row is delivered, and the last beat of the last row.
    compute_cycles : int
        ``iterations * iteration_cycles``.
    """

    first_read_cycle: int
    last_read_cycle: int
    first_output_cycle: int
    last_output_cycle: int
    compute_cycles: int


def job_times(unit: ReorderedUnit, jobs: Sequence[AttentionJob]) -> tuple[JobTimes, ...]:
    """Return the times of ``jobs`` that are offered one a cycle from the start, all other inputs always being there.

    A loader of K, and one of V, takes a job when a bank is free, and one beat a cycle after that. The work on a job
    starts when both have loaded it and the job before it has read its last key; starting takes one cycle. A bank of K
    is free when the last iteration has ended, a bank of V when its last block was read.

    Raises
    ------
    InputError
        A job is longer than ``max_length``.
    """
    result: list[JobTimes] = []
    blocks = {"keys": unit.key_blocks, "values": unit.value_blocks}
    loaded = dict.fromkeys(blocks, 0)
    free: dict[str, list[int]] = {name: [] for name in blocks}
    idle = 0
    for index, job in enumerate(jobs):
        order = unit.schedule(job)
        for name, each in blocks.items():
            bank = free[name][index - unit.banks] if index >= unit.banks else 0
            taken = max(index + 1, loaded[name], bank)
            loaded[name] = taken + 1 + job.keys * each
        start = max(idle, *loaded.values())
        compute = order.iterations * unit.iteration_cycles
        last_read = start + compute
        last_key = start + (order.iterations - 1) * unit.iteration_cycles + unit.key_blocks
        idle = last_read + 1
        free["keys"].append(last_read + 1)
        free["values"].append(last_key + unit.score_cycles + unit.value_blocks - 2)
        first_key = start + order.row_end(0) * unit.iteration_cycles + unit.key_blocks
        result.append(
            JobTimes(
                first_read_cycle=start + 1,
                last_read_cycle=last_read,
                first_output_cycle=first_key + unit.latency_cycles,
                last_output_cycle=last_key + unit.latency_cycles + unit.value_blocks - 1,
                compute_cycles=compute,
            )
        )
    return tuple(result)
