"""The reordered schedule of attention: which query row meets which key when, and how many of everything that takes.

The order is Edge-MoE's (ICCAD 2023, arXiv 2305.18691, section on attention): p slots hold one query row each; one
iteration shows one key to all slots, and the keys pass again and again. Row q sits in slot ``q mod p``. It is loaded in
the iteration that shows key ``q mod p`` of pass ``q // p``, meets the keys from there to the end of the pass, and then,
in the next pass, the keys before it. So at most one row is loaded and one row is finished in an iteration, rows are
finished in their order, and one key (and one value) is needed per iteration, whatever p is.

For N queries and keys and no mask the number of iterations is
``T(N, p) = (floor((N - 1) / p) + 1) * N + ((N - 1) mod p)``, which is ``N**2 / p + p - 1`` if p divides N. What is
added here:

* P queries and M keys may differ, and M may be below p: then M slots are used (``slots_used``), for a pass of M
  iterations loads M rows.
* A causal mask (key k counts for row q if ``k <= q + offset``) ends pass m after the last key that one of its rows
  may see, ``min(M, min((m + 1) p, P) + offset)`` iterations. All earlier keys still pass every row, in the same
  rotated order. What a row meets beyond its mask is skipped by its slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from accel.errors import InputError

__all__ = ["AttentionJob", "ReorderedSchedule", "Visit", "reordered_iterations"]


def reordered_iterations(length: int, slots: int) -> int:
    """Return T(N, p): iterations of unmasked self-attention of ``length`` rows on ``slots`` slots, both at least 1."""
    used = min(slots, length)
    return ((length - 1) // used + 1) * length + (length - 1) % used


@dataclass(frozen=True, kw_only=True)
class AttentionJob:
    """The run-time settings of one head.

    Parameters
    ----------
    queries, keys : int
        Rows of Q, and rows of K and V; at least 1.
    causal : bool
        Whether key k counts for query q only if ``k <= q + offset``.
    offset : int
        Keys ahead of the first query; 0 without a mask.

    Raises
    ------
    InputError
        A number is out of range.
    """

    queries: int
    keys: int
    causal: bool = False
    offset: int = 0

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        for name, least in (("queries", 1), ("keys", 1), ("offset", 0)):
            value = getattr(self, name)
            if value < least:
                raise InputError(f"{name} must be at least {least}, not {value}", hint=f"use {least}", field=(name,))
        if self.offset and not self.causal:
            raise InputError(
                f"offset must be 0 without a causal mask, not {self.offset}",
                hint="set causal or drop offset",
                field=("offset",),
            )

    def sees(self, query: int, key: int) -> bool:
        """Return whether ``key`` counts for ``query``."""
        return not self.causal or key <= query + self.offset

    @property
    def live_pairs(self) -> int:
        """Pairs of a query and a key that counts for it."""
        if not self.causal:
            return self.queries * self.keys
        # Rows from `whole` on see all keys; those before see offset + 1, offset + 2, ...
        whole = min(self.queries, max(0, self.keys - 1 - self.offset))
        return whole * (self.offset + 1) + whole * (whole - 1) // 2 + (self.queries - whole) * self.keys


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One slot in one iteration.

    Parameters
    ----------
    slot, query, key : int
        Who meets whom.
    first, last : bool
        The row is loaded in this iteration, or finished.
    live : bool
        The key counts for the query.
    """

    slot: int
    query: int
    key: int
    first: bool
    last: bool
    live: bool


@dataclass(frozen=True, kw_only=True)
class ReorderedSchedule:
    """The order of one job on p slots.

    Parameters
    ----------
    slots : int
        p, at least 1.
    job : AttentionJob
        Lengths and mask.

    Raises
    ------
    InputError
        There is no slot.
    """

    slots: int
    job: AttentionJob

    def __post_init__(self) -> None:
        """Check the number of slots."""
        if self.slots < 1:
            raise InputError(f"slots must be at least 1, not {self.slots}", hint="use 1", field=("slots",))

    @property
    def slots_used(self) -> int:
        """Slots that ever hold a row in a pass of M keys: ``min(p, M)``."""
        return min(self.slots, self.job.keys)

    @property
    def passes(self) -> int:
        """Passes that load rows; the drain is not one of them."""
        return (self.job.queries - 1) // self.slots_used + 1

    @property
    def drain(self) -> int:
        """Iterations after the last pass, in which its rows meet the keys before their first."""
        return (self.job.queries - 1) % self.slots_used

    def pass_length(self, index: int) -> int:
        """Return the iterations of pass ``index``."""
        job = self.job
        if not job.causal:
            return job.keys
        return min(job.keys, min((index + 1) * self.slots_used, job.queries) + job.offset)

    def pass_start(self, index: int) -> int:
        """Return the iteration in which pass ``index`` starts, or the drain if it is ``passes``."""
        job, used = self.job, self.slots_used
        if not job.causal:
            return index * job.keys
        # Passes before `long` are shorter than the keys by their mask; all full but perhaps the last of the job.
        full = min(index, job.queries // used)
        long = min(full, max(0, -(-(job.keys - job.offset) // used) - 1))
        total = long * job.offset + used * long * (long + 1) // 2 + (full - long) * job.keys
        return total + (self.pass_length(full) if index > full else 0)

    @property
    def iterations(self) -> int:
        """All iterations: T(N, p) for unmasked self-attention."""
        return self.pass_start(self.passes) + self.drain

    def row_start(self, query: int) -> int:
        """Return the iteration that loads row ``query``, and shows it its first key, ``query mod slots_used``."""
        return self.pass_start(query // self.slots_used) + query % self.slots_used

    def row_end(self, query: int) -> int:
        """Return the iteration that finishes row ``query``: one pass after it was loaded."""
        return self.row_start(query) + self.pass_length(query // self.slots_used) - 1

    def keys_of(self, query: int) -> tuple[int, ...]:
        """Return the keys in the order in which row ``query`` meets them, those that do not count included."""
        length, first = self.pass_length(query // self.slots_used), query % self.slots_used
        return (*range(first, length), *range(first))

    @property
    def blind_ends(self) -> int:
        """Rows whose last key does not count for them.

        Only the row of slot 0 ends on the last key of its pass; the others end on a key before their own number.
        """
        used, job = self.slots_used, self.job
        if not job.causal:
            return 0
        # Row m * used sees keys up to m * used + offset: more than the pass shows, from this pass on.
        seen = max(0, -(-(job.keys - 1 - job.offset) // used))
        # A pass with a single row ends on the last key of that row.
        alone = 1 if used == 1 or (job.queries - 1) % used == 0 else 0
        candidates = 0 if used == 1 else self.passes - alone
        return min(candidates, seen)

    @property
    def utilisation(self) -> float:
        """Share of all slot iterations in which a slot has a row and a key that counts."""
        return self.job.live_pairs / (self.iterations * self.slots)

    def walk(self) -> Iterator[tuple[Visit, ...]]:
        """Yield, iteration by iteration, what the busy slots do: the definition that the closed forms are tested by."""
        job, used = self.job, self.slots_used
        for index in range(self.passes + 1):
            for key in range(self.pass_length(index) if index < self.passes else self.drain):
                visits = []
                for slot in range(used):
                    query = (index if key >= slot else index - 1) * used + slot
                    if not 0 <= query < job.queries:
                        continue
                    last_key = slot - 1 if slot else self.pass_length(query // used) - 1
                    visits.append(
                        Visit(
                            slot=slot,
                            query=query,
                            key=key,
                            first=key == slot,
                            last=key == last_key,
                            live=job.sees(query, key),
                        )
                    )
                yield tuple(visits)
