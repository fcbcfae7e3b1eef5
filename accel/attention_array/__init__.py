"""The contract of the spatial attention array: parameters, arithmetic, program, timing, cycles and actions.

Hardware (``rtl.attention.array``) and golden model (``sim.golden.attention_array``) are two independent readings of
this package: the arithmetic is below, the exponential in ``exponential``, widths in ``unit``, the order of things in
``program``, and what neighbour links demand of it in ``timing``.

For one head, Q[P, E], K[M, E] and V[M, F] being codes, all quantities integers, ``rnd`` rounding half up, and
exp(d) -> (y, n) the exponential e**-d = y * 2**-n of a score difference d >= 0, w its ``weight_fraction_bits``. Keys
come in tiles of m0. RM is ``score_floor`` and RD and RNV are 0 before the first tile. For each tile and each query:

1. ``BQK = sum over e of Q * K``, exact. A key beyond M, or (causal) beyond the query's own index, is *dead*.
2. ``LM = max of BQK`` over the living keys, ``score_floor`` if there is none. ``RM' = max(RM, LM)``.
3. ``SLN = rnd(y / 2**(n + 1))`` with exp(RM' - BQK); 0 for a dead key. ``SLD = sum of SLN``,
   ``SLNV = sum of SLN * V``, both exact.
4. ``(y, n) = exp(RM' - RM)``. ``SPD = rnd(RD * y / 2**(n + w + 1))``, ``SPNV = rnd(RNV * y / 2**(n + w + 1))``.
5. ``RD' = SLD + SPD``, ``RNV' = SLNV + SPNV``.

After the last tile, with r = ``reciprocal_fraction_bits``: ``e = floor(log2(RD))``,
``g = min(rnd(RD / 2**(e - r)), 2**(r+1) - 1)``, ``y0 = reciprocal(g - 2**r)`` with k fraction bits, one Newton step
``d = floor((2**(r + k + 1) - g * y0) / 2**k)``, ``z = rnd(y0 * d / 2**k)``; and
``AV = RNV * z / 2**(r + e + value fraction - output fraction)``, rounded and fitted by the output format.

Streams. A beat of Q holds one feature of the C queries of a tile, of K or V one feature of R keys; lanes beyond the job
are ignored. For each head and each group of p1 query tiles:

* Q: for each query tile its E beats;
* K: for each key tile, for each turn j (keys j R to j R + R - 1 of the tile, as many as the tile has) its E beats; V
  likewise, F beats. A job whose keys are a single tile sends K and V once for a head, not once for a group;
* AV: for each query tile F beats of C lanes; ``keep`` marks the lanes within the job, ``last`` the last beat of a head.

Time. ``program.compute_cycles`` counts from the first micro-operation to the end of the last epoch. If K, V and Q are
always offered and AV is always taken, the first micro-operation is issued ``START_CYCLES`` after the cycle in which the
last beat that the first epoch needs is accepted (of the first tile's Q and K, and of its V if the offset of SLNV is 0),
and the last beat of AV is delivered ``end_cycles(unit)`` after the last division. That holds while inputs keep up: K
and V of a tile are as many beats as BQK and SLNV take cycles, so only a plan with a single copy, or a short key tile
before a long one, can leave an epoch waiting; ``wait_cycles`` of the hardware tells.
"""

from accel.attention_array.exponential import LOG2E, LOG2E_FRACTION_BITS, Exponential
from accel.attention_array.program import (
    ACTIONS,
    START_CYCLES,
    Issue,
    Job,
    Tile,
    actions,
    check_job,
    compute_cycles,
    end_cycles,
    epochs,
    first_to_last_cycles,
    is_lone,
    issues,
    lone_cycles,
    loops,
    tiles,
)
from accel.attention_array.timing import Late, check_timing, depths, lates, with_stalls
from accel.attention_array.unit import CASCADE, EINSUMS, AttentionArray

__all__ = [
    "ACTIONS",
    "CASCADE",
    "EINSUMS",
    "LOG2E",
    "LOG2E_FRACTION_BITS",
    "START_CYCLES",
    "AttentionArray",
    "Exponential",
    "Issue",
    "Job",
    "Late",
    "Tile",
    "actions",
    "check_job",
    "check_timing",
    "compute_cycles",
    "depths",
    "end_cycles",
    "epochs",
    "first_to_last_cycles",
    "is_lone",
    "issues",
    "lates",
    "lone_cycles",
    "loops",
    "tiles",
    "with_stalls",
]
