"""The contract of the reordered attention unit: parameters, derived widths, and its arithmetic bit by bit.

Hardware (``rtl.attention.reordered``) and golden model (``sim.golden.reordered``) are two independent readings of this
page and of the order of ``accel.reordered_schedule``. All quantities are integers, ``floor`` and ``ceil`` go towards
minus and plus infinity, and ``rnd`` rounds half up. Query q meets the keys k that count for it in the rotated order:

1. ``a = sum over e of Q[q,e] * K[k,e]``, exact. ``t = rnd(a * C / 2**(query fraction + key fraction + z - m))``: the
   score times log2(e), with ``m = weight_fraction_bits`` fraction bits; C = ``log2_factor`` stands for
   ``score_scale * log2(e)`` with ``z = log2_factor_fraction_bits`` (a negative shift is exact).
2. ``n = ceil(t / 2**m)``, ``g = n * 2**m - t``; ``w = exp2(g)`` by ``exp2`` (a ``LinearTable``): e**score is
   ``w * 2**n``.
3. ``M' = max(M, n)``, for the first key n. With ``s = m + guard_bits``: ``b = floor(w * 2**(s - m) / 2**(M' - n))``;
   ``S' = floor(S / 2**(M' - M)) + b`` and ``A'[f] = floor(A[f] / 2**(M' - M)) + b * V[k,f]``; for the first key
   ``S' = b``, ``A'[f] = b * V[k,f]``. The running maximum is a whole number, so the correction is a shift, and the
   scores never leave the unit: A is the sum of the values, weighted but not normalised.
4. After the last key ``e = floor(log2(S))``, ``f = min(rnd(S / 2**(e - r)), 2**(r+1) - 1)`` with
   ``r = reciprocal_fraction_bits``; ``y0 = reciprocal(f - 2**r)`` by ``reciprocal`` (a ``LinearTable``) with k fraction
   bits (``result_fraction_bits``); ``d = floor((2**(r + k + 1) - f * y0) / 2**k)``, ``y = rnd(y0 * d / 2**k)``: one
   reciprocal for each row.
5. ``u = floor(A[f] / 2**(e - h))`` with ``h = quotient_fraction_bits``, and the output is
   ``u * y / 2**(h + r + value fraction - output fraction)``, rounded and fitted by the output format.

Time. An iteration takes ``iteration_cycles`` L: all slots work on one block of ``block`` features of one key and, some
cycles later, of one value in each cycle. Scores leave the slots together and pass ``exp_units`` exponential units in
turn; ``job_times`` says in which cycle everything happens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from accel.checks import check_ranges
from accel.errors import InputError
from accel.numerics import FixedPoint, LinearTable, Overflow, exp2_table, reciprocal_table
from accel.numerics.tables import newton_reciprocal_error
from accel.reordered_schedule import AttentionJob, ReorderedSchedule

__all__ = ["REORDERED_ACTIONS", "ReorderedUnit"]

LOG2_FACTOR_BITS = 17
"""Significant bits of the constant C."""
MAX_EXP_SEGMENTS = 4096

REORDERED_ACTIONS = {
    "mac_qk": "multiply-accumulates of a score: E for each pair of a query and a key that counts",
    "exp": "exponentials: one for each such pair",
    "max": "comparisons with the running maximum: one for each such pair",
    "add": "additions into the running sum: one for each such pair",
    "rescale": "pairs that raise the running maximum of their row after its first, so that the sum is shifted",
    "mac_av": "multiply-accumulates of the output: F for each such pair",
    "rescale_av": "accumulators shifted: F for each rescale",
    "reciprocal": "reciprocals: one for each row",
    "multiply": "output multiplications: F for each row",
    "query_write": "blocks of Q written into the slots",
    "query_read": "blocks of Q read from the slots: all such pairs but the first of a row, which meets Q as it comes",
    "key_write": "blocks of K written",
    "key_read": "blocks of K read: E / block in each iteration, whatever the number of slots",
    "value_write": "blocks of V written",
    "value_read": "blocks of V read: F / block in each iteration, whatever the number of slots",
    "accumulator_write": "blocks of the running output written: for each such pair but a row's last, which passes on",
    "accumulator_read": "blocks of the running output read: as many, as a first pair needs none and an end does",
    "row_write": "blocks of finished rows written into the row buffer",
    "row_read": "blocks of finished rows read from it",
}
"""The actions that hardware counts and models predict, with their definitions."""


def _signed_bits(low: int, high: int) -> int:
    return 1 + max(high.bit_length() if high > 0 else 0, (~low).bit_length() if low < 0 else 0)


def _code_range(element: FixedPoint) -> tuple[int, int]:
    return element.min_code, element.max_code


@dataclass(frozen=True, kw_only=True)
class ReorderedUnit:
    """Parameters of the reordered attention unit and everything that follows from them.

    Parameters
    ----------
    max_length : int
        Most keys, and most queries, of a job; 2 to 65535. K and V of that length are held on chip.
    key_features, value_features : int
        E and F; 1 to 1024, multiples of ``block``.
    slots : int
        Query rows in work at a time, p; 1 to 64.
    block : int
        Features in a beat, and multiply-accumulates of a slot in a cycle; 1 to 64.
    banks : int
        1, or 2 to load the next job's K and V while one is worked on.
    query_format, key_format, value_format : FixedPoint
        Of the inputs; 2 to 18 bits. Their rounding and overflow apply where real numbers are quantized.
    output_format : FixedPoint
        Of the outputs: saturating, with room for every value of ``value_format``, at most 24 bits, at most
        ``weight_fraction_bits`` more fraction bits than that, and steps no larger than its range.
    weight_fraction_bits : int
        Fraction bits of the exponentials; 4 to 20.
    guard_bits : int
        Further fraction bits of the running sums; 1 to 12. log2(N) of them keep the N truncations below one step of
        the exponentials.
    score_scale : float
        Factor of the scores, 2**-24 to 2**8; the default 0 stands for 1 / sqrt(E).
    exp_segments : int
        Segments of the 2**-u table, a power of two from 1 to 4096, with fewer bits than its argument.

    Raises
    ------
    InputError
        A parameter is out of range, or a sum would need more than 62 bits.
    """

    max_length: int
    key_features: int
    value_features: int
    slots: int
    block: int
    query_format: FixedPoint
    key_format: FixedPoint
    value_format: FixedPoint
    output_format: FixedPoint
    banks: int = 2
    weight_fraction_bits: int = 16
    guard_bits: int = 8
    score_scale: float = 0.0
    exp_segments: int = 64

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        check_ranges(
            self,
            (
                ("max_length", 2, 65535),
                ("key_features", 1, 1024),
                ("value_features", 1, 1024),
                ("slots", 1, 64),
                ("block", 1, 64),
                ("banks", 1, 2),
                ("weight_fraction_bits", 4, 20),
                ("guard_bits", 1, 12),
            ),
        )
        for name in ("key_features", "value_features"):
            if getattr(self, name) % self.block:
                raise InputError(
                    f"{name} must be a multiple of block ({self.block}), not {getattr(self, name)}",
                    hint=f"use block {math.gcd(self.key_features, self.value_features, self.block)}",
                    field=(name,),
                )
        if self.score_scale and not 2.0**-24 <= self.score_scale <= 2.0**8:
            raise InputError(
                f"score_scale must be from 2**-24 to 2**8, or 0 for 1 / sqrt(E), not {self.score_scale}",
                hint="fold the sign and the rest into the queries",
                field=("score_scale",),
            )
        self._check_formats()
        most = min(MAX_EXP_SEGMENTS, 1 << (self.weight_fraction_bits - 1))
        if not 1 <= self.exp_segments <= most or self.exp_segments.bit_count() != 1:
            nearest = 1 << (min(max(self.exp_segments, 1), most).bit_length() - 1)
            raise InputError(
                f"exp_segments must be a power of two from 1 to {most}, not {self.exp_segments}",
                hint=f"use {nearest}",
                field=("exp_segments",),
            )
        for what, bits in (("scores", self.product_bits), ("outputs", self.accumulator_bits)):
            if bits > 62:
                raise InputError(
                    f"the sums of the {what} must fit in 62 bits, but need {bits}",
                    hint="use narrower formats, fewer features or a smaller max_length",
                )

    def _check_formats(self) -> None:
        for name in ("query_format", "key_format", "value_format"):
            element: FixedPoint = getattr(self, name)
            if not 2 <= element.width_bits <= 18:
                raise InputError(
                    f"{name} must have 2 to 18 bits, not {element.width_bits}",
                    hint="16 bits suit most models",
                    field=(name, "width_bits"),
                )
            if not -8 <= element.fraction_bits <= 24:
                raise InputError(
                    f"{name} must have -8 to 24 fraction bits, not {element.fraction_bits}",
                    hint="scale the numbers nearer to 1",
                    field=(name, "fraction_bits"),
                )
        source, target = self.value_format, self.output_format
        if target.overflow is not Overflow.SATURATE:
            raise InputError(
                f"output_format must saturate, not {target.overflow}",
                hint="use overflow 'saturate'",
                field=("output_format", "overflow"),
            )
        if target.width_bits > 24:
            raise InputError(
                f"output_format must have at most 24 bits, not {target.width_bits}",
                hint="use 16 bits",
                field=("output_format", "width_bits"),
            )
        finest = source.fraction_bits + self.weight_fraction_bits
        coarsest = source.fraction_bits - source.width_bits + 1
        if not coarsest <= target.fraction_bits <= finest:
            raise InputError(
                f"output_format must have {coarsest} to {finest} fraction bits, not {target.fraction_bits}",
                hint="use those of value_format",
                field=("output_format", "fraction_bits"),
            )
        reach = source.max_value - target.resolution
        if target.min_value > source.min_value or target.max_value < reach:
            raise InputError(
                f"output_format must reach from {source.min_value} to {reach} as the values do, "
                f"not from {target.min_value} to {target.max_value}",
                hint="use value_format",
                field=("output_format", "width_bits"),
            )

    @property
    def key_blocks(self) -> int:
        """Beats of one row of Q or K."""
        return self.key_features // self.block

    @property
    def value_blocks(self) -> int:
        """Beats of one row of V, or of the output."""
        return self.value_features // self.block

    @property
    def iteration_cycles(self) -> int:
        """Cycles of one iteration, L: the blocks of a key or of a value, whichever are more."""
        return max(self.key_blocks, self.value_blocks)

    @property
    def exp_units(self) -> int:
        """Exponential units: as many as serve all slots within an iteration."""
        return -(-self.slots // self.iteration_cycles)

    @property
    def group(self) -> int:
        """Slots that share an exponential unit; at most ``iteration_cycles``."""
        return -(-self.slots // self.exp_units)

    @property
    def tree_stages(self) -> int:
        """Register stages of the tree that sums a block: two levels of additions each."""
        return -(-(self.block - 1).bit_length() // 2)

    @property
    def score_cycles(self) -> int:
        """Cycles from reading the last block of a key to the slots' weights at the accumulators."""
        return 15 + self.tree_stages + self.group

    @property
    def latency_cycles(self) -> int:
        """Cycles from reading the last block of a row's last key to the row's first output, the output being ready.

        Score: 5 and the tree; the last slot of a group waits ``group - 1`` cycles; exponential 6, running maximum and
        sum 4, hand-over 1; reciprocal 10, row queue 3, output 5.
        """
        return self.score_cycles + 10 + 3 + 5

    @property
    def row_buffer_beats(self) -> int:
        """Beats of finished rows that may wait: as many rows as finish while one takes its way, and one more."""
        stay = self.key_blocks + self.score_cycles + 13 + self.value_blocks
        return self.value_blocks * (-(-stay // self.iteration_cycles) + 1)

    def schedule(self, job: AttentionJob) -> ReorderedSchedule:
        """Return the order of ``job``.

        Raises
        ------
        InputError
            The job is longer than ``max_length``.
        """
        for name in ("queries", "keys", "offset"):
            if getattr(job, name) > self.max_length:
                raise InputError(
                    f"{name} must be at most max_length ({self.max_length}), not {getattr(job, name)}",
                    hint="raise max_length or split the job",
                    field=(name,),
                )
        return ReorderedSchedule(slots=self.slots, job=job)

    def actions(self, job: AttentionJob, *, rescales: int) -> dict[str, int]:
        """Return how often each of ``REORDERED_ACTIONS`` happens in ``job``.

        Parameters
        ----------
        job : AttentionJob
            Lengths and mask.
        rescales : int
            How often a running maximum was raised, which depends on the data.

        Raises
        ------
        InputError
            The job is longer than ``max_length``.
        """
        order = self.schedule(job)
        live, rows = job.live_pairs, job.queries
        passed = self.value_blocks * (live - rows + order.blind_ends)
        return {
            "mac_qk": live * self.key_features,
            "exp": live,
            "max": live,
            "add": live,
            "rescale": rescales,
            "mac_av": live * self.value_features,
            "rescale_av": rescales * self.value_features,
            "reciprocal": rows,
            "multiply": rows * self.value_features,
            "query_write": rows * self.key_blocks,
            "query_read": (live - rows) * self.key_blocks,
            "key_write": job.keys * self.key_blocks,
            "key_read": order.iterations * self.key_blocks,
            "value_write": job.keys * self.value_blocks,
            "value_read": order.iterations * self.value_blocks,
            "accumulator_write": passed,
            "accumulator_read": passed,
            "row_write": rows * self.value_blocks,
            "row_read": rows * self.value_blocks,
        }

    @property
    def scale(self) -> float:
        """Factor of the scores."""
        return self.score_scale or 1.0 / math.sqrt(self.key_features)

    @property
    def log2_factor_fraction_bits(self) -> int:
        """Fraction bits z of the constant C."""
        return LOG2_FACTOR_BITS - 1 - math.floor(math.log2(self.scale * math.log2(math.e)))

    @property
    def log2_factor(self) -> int:
        """C: ``score_scale * log2(e)`` with 17 significant bits."""
        return round(math.ldexp(self.scale * math.log2(math.e), self.log2_factor_fraction_bits))

    @property
    def score_range(self) -> tuple[int, int]:
        """Smallest and largest a."""
        ends = [q * k for q in _code_range(self.query_format) for k in _code_range(self.key_format)]
        return self.key_features * min(ends), self.key_features * max(ends)

    @property
    def score_bits(self) -> int:
        """Width of a as a signed number."""
        return _signed_bits(*self.score_range)

    @property
    def product_bits(self) -> int:
        """Width of ``a * C`` as a signed number, and room to round it."""
        low, high = self.score_range
        return _signed_bits(low * self.log2_factor, high * self.log2_factor) + 1

    @property
    def scale_shift(self) -> int:
        """Bits by which step 1 shifts to the right."""
        fractions = self.query_format.fraction_bits + self.key_format.fraction_bits + self.log2_factor_fraction_bits
        return fractions - self.weight_fraction_bits

    def _scaled(self, score: int) -> int:
        product, shift = score * self.log2_factor, self.scale_shift
        return product << -shift if shift <= 0 else (product + (1 << (shift - 1))) >> shift

    @property
    def exponent_range(self) -> tuple[int, int]:
        """Smallest and largest exponent n."""
        one = 1 << self.weight_fraction_bits
        low, high = (self._scaled(score) for score in self.score_range)
        return -(-low // one), -(-high // one)

    @property
    def sum_fraction_bits(self) -> int:
        """Fraction bits s of the running sum and of the weights in it."""
        return self.weight_fraction_bits + self.guard_bits

    @property
    def sum_bits(self) -> int:
        """Width of S, at most ``max_length`` weights of 1."""
        return (self.max_length << self.sum_fraction_bits).bit_length()

    @property
    def accumulator_bits(self) -> int:
        """Width of A as a signed number: ``max_length`` weights of 1 times the ends of the value format.

        A rescale rounds down, but it also halves what was there before by at least as much.
        """
        low, high = _code_range(self.value_format)
        whole = self.max_length << self.sum_fraction_bits
        return _signed_bits(low * whole, high * whole)

    @property
    def reciprocal_fraction_bits(self) -> int:
        """Fraction bits r of the normalised sum and of its reciprocal."""
        return self.weight_fraction_bits + 1

    @property
    def quotient_fraction_bits(self) -> int:
        """Bits h that u has below a step of the values: two more than the output has.

        No more than ``s - 2``, for S is at least the largest weight, above a quarter, and so ``e >= s - 2``.
        """
        wanted = max(0, self.output_format.fraction_bits - self.value_format.fraction_bits) + 2
        return min(wanted, self.sum_fraction_bits - 2)

    @property
    def quotient_bits(self) -> int:
        """Width of u as a signed number.

        A is at most the largest value times the sum of the weights, which exceeds S by less than the 2 steps that
        rescaling takes from it, and ``S < 2**(e + 1)``; with ``e >= s - 2`` these steps are at most ``2**(3 - s)``
        of it.
        """
        low, high = _code_range(self.value_format)
        most = max(-low, high) << (self.quotient_fraction_bits + 1)
        most += (most >> max(0, self.sum_fraction_bits - 3)) + 2
        return _signed_bits(-most, most)

    @property
    def output_shift(self) -> int:
        """Bits by which step 5 shifts ``u * y`` to the right; at least 1."""
        fractions = self.value_format.fraction_bits - self.output_format.fraction_bits
        return self.quotient_fraction_bits + self.reciprocal_fraction_bits + fractions

    @cached_property
    def exp2(self) -> LinearTable:
        """Table of w."""
        bits = self.weight_fraction_bits
        return exp2_table(segments=self.exp_segments, argument_bits=bits, result_fraction_bits=bits, guard_bits=2)

    @cached_property
    def reciprocal(self) -> LinearTable:
        """Table of the first guess y0, good enough for one Newton step to reach r bits."""
        bits = self.reciprocal_fraction_bits
        guess_bits = bits // 2 + 3
        return reciprocal_table(
            segments=1 << min(bits - 1, max(1, (guess_bits - 1) // 2)),
            argument_bits=bits,
            result_fraction_bits=guess_bits,
            guard_bits=2,
        )

    @property
    def weight_error(self) -> float:
        """Bound on half the sum over the keys of the distances of the weights from the exact softmax, for any row.

        Let N be ``max_length``. If all weights p change to p' and sum to 1 again, the output moves by at most half of
        ``sum |p' - p|`` times the spread of the values.

        * C is off by a factor of at most 1 + c. As ``dp = c p (ln p - mean of ln p)``, the sum is at most c times the
          standard deviation of ln p, whose square is below ``ln(N - 1)**2 / 4 + 1`` (Reeb and Wolf, IEEE Transactions
          on Information Theory 61, 2015: the variance of the surprisal of N outcomes).
        * Terms off by at most a factor 1 + q each way, from rounding t and from the table, move the sum by at most
          ``q / (1 - q)``.
        * Each term loses less than one step of s as it is truncated, N together, of a sum that is at least one
          smallest mantissa; a loss of the share x moves the sum by at most ``2 x / (1 - x)``.
        """
        exact = self.scale * math.log2(math.e)
        constant = abs(math.ldexp(self.log2_factor, -self.log2_factor_fraction_bits) / exact - 1)
        spread = math.sqrt(math.log(max(1, self.max_length - 1)) ** 2 / 4 + 1)
        step = 2.0**-self.weight_fraction_bits
        term: float = 2.0 ** (step / 2) * (1 + 2 * self.exp2.max_error) - 1
        lost = self.max_length * 2.0**-self.sum_fraction_bits / (0.5 - self.exp2.max_error)
        if term >= 1 or lost >= 1:
            return 1.0  # a table or a sum this coarse promises nothing
        total = constant / (1 - constant) * spread + term / (1 - term) + 2 * lost / (1 - lost)
        return min(1.0, total / 2)

    @property
    def max_error(self) -> float:
        """Bound on the distance of any output from float64 attention of the quantized inputs.

        ``weight_error`` times the spread of the values; two steps of S that rescaling loses, of a sum of at least one
        smallest mantissa, and the error of the reciprocal, times the largest value; two steps of A; one step of u; and
        one step of the output. The bound is for values that fill their format; for others it shrinks with their spread.
        """
        values = self.value_format
        largest = max(-values.min_value, values.max_value)
        spread = values.max_value - values.min_value
        smallest = 0.5 - self.exp2.max_error
        steps = 2 * 2.0**-self.sum_fraction_bits / smallest
        lost = self.max_length * 2.0**-self.sum_fraction_bits / smallest
        if lost + steps >= 1:
            return spread
        factor = (1 + newton_reciprocal_error(self.reciprocal, self.reciprocal_fraction_bits)) / (
            1 - steps / (1 - lost)
        ) - 1
        absolute = steps / (1 - lost) * values.resolution + 2.0**-self.quotient_fraction_bits * values.resolution
        return min(spread, self.weight_error * spread + factor * largest + absolute + self.output_format.resolution)
