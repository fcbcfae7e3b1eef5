"""The parameters of the array, everything that follows from them, and its arithmetic bit by bit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from accel.arch import Architecture
from accel.attention_array.exponential import Exponential
from accel.checks import check_ranges
from accel.errors import InputError
from accel.numerics import FixedPoint, LinearTable, reciprocal_table
from accel.numerics.tables import newton_reciprocal_error
from accel.schedule import Axis, Level, Plan, Schedule

__all__ = ["CASCADE", "EINSUMS", "INPUTS", "AttentionArray"]

CASCADE = "attention-1pass"
INPUTS = ("Q", "K", "V")
EINSUMS: dict[str, tuple[str, tuple[str, str]]] = {
    "BQK": ("2d", ("e", "turn")),
    "LM": ("2d", ("1", "turn")),
    "RM": ("1d", ("1", "1")),
    "SLN": ("2d", ("turn", "stage")),
    "SLD": ("2d", ("1", "turn")),
    "SLNV": ("2d", ("f", "turn")),
    "PRM": ("1d", ("1", "stage")),
    "SPD": ("1d", ("1", "1")),
    "RD": ("1d", ("1", "1")),
    "SPNV": ("1d", ("f", "1")),
    "RNV": ("1d", ("f", "1")),
    "AV": ("1d", ("f", "1")),
}
"""Einsum to the array that can run it, and to its two nested loops, outer first: one micro-operation an iteration.

``e`` and ``f`` run over the head dimensions, ``turn`` over the keys that one PE has of a tile, and ``stage`` over the
subtraction, the scaling and the steps of the polynomial of one exponential.
"""

_SPLITS = {"m": ("m1", "m0"), "p": ("p2", "p1", "p0")}
_LOOPS = ("p2", "m1", "p1")
_IN_BUFFER = {"Q": "p2", "K": "m1", "V": "m1", "RM": "p2", "RD": "p2", "RNV": "p2"}


@dataclass(frozen=True, kw_only=True)
class AttentionArray:
    """Parameters of the spatial attention array and everything that follows from them.

    Parameters
    ----------
    rows, columns : int
        PEs of the array, R and C; 1 to 32 each.
    query_key_dim, value_dim : int
        Head dimensions E and F; 1 to 256.
    max_length : int
        Most queries, and most keys, of a head; 1 to 65536.
    keys_per_tile : int
        m0: keys for each update of the running values. More than R make several turns, at most 8; at most
        ``max_length``.
    queries_per_tile : int
        p0; at most C and ``max_length``.
    query_tiles : int
        p1: query tiles whose Q and running values stay on chip while all keys pass; at most 64, and no more than the
        longest head has.
    plan : Plan
        The epoch: groups, slots, order, tile offsets and stalls. Splits, loops and axes must be those of the template
        ``spatial-array-1pass``; copies of Q, K and V are powers of two.
    query_format, key_format, value_format : FixedPoint
        Of Q (which comes scaled by 1 / sqrt(E)), K and V: signed, 4 to 18 bits.
    output_format : FixedPoint
        Of AV: signed, 4 to 24 bits, saturating.
    exponential : Exponential
        The exponential.
    lone_stall_cycles : int
        Stall after the last group of every epoch, beyond the plan's, in a job of a single tile, which has no other
        tile behind whose work its running maximum could climb; 0 to 1023.

    Raises
    ------
    InputError
        A parameter is out of range, the plan is not one that this machine can follow, or a word gets too wide.
    """

    rows: int
    columns: int
    query_key_dim: int
    value_dim: int
    max_length: int
    keys_per_tile: int
    queries_per_tile: int
    query_tiles: int
    plan: Plan
    query_format: FixedPoint
    key_format: FixedPoint
    value_format: FixedPoint
    output_format: FixedPoint
    exponential: Exponential
    lone_stall_cycles: int = 0

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        check_ranges(
            self,
            (
                ("rows", 1, 32),
                ("columns", 1, 32),
                ("query_key_dim", 1, 256),
                ("value_dim", 1, 256),
                ("max_length", 1, 65536),
                ("keys_per_tile", 1, min(8 * self.rows, self.max_length)),
                ("queries_per_tile", 1, min(self.columns, self.max_length)),
                ("query_tiles", 1, min(64, -(-self.max_length // max(1, self.queries_per_tile)))),
                ("lone_stall_cycles", 0, 1023),
            ),
        )
        self._check_formats()
        self._check_plan()

    def _check_formats(self) -> None:
        for name, widest in (("query", 18), ("key", 18), ("value", 18), ("output", 24)):
            given: FixedPoint = getattr(self, f"{name}_format")
            if not given.signed or not 4 <= given.width_bits <= widest:
                raise InputError(
                    f"{name}_format must be signed and have 4 to {widest} bits, not {given}",
                    hint="use s16f12,nearest_even,saturate",
                    field=(f"{name}_format",),
                )
        if self.output_format.overflow != "saturate":
            raise InputError(
                f"output_format must saturate, not {self.output_format}",
                hint="end it with ,saturate",
                field=("output_format", "overflow"),
            )
        if self.output_format.fraction_bits > self.value_format.fraction_bits + self.weight_fraction_bits:
            raise InputError(
                f"output_format must have at most {self.value_format.fraction_bits + self.weight_fraction_bits} "
                f"fraction bits, as value_format and the weights have together, not {self.output_format.fraction_bits}",
                hint="use as many as value_format",
                field=("output_format", "fraction_bits"),
            )
        if self.product_bits > 62:
            raise InputError(
                f"products of running values must fit in 62 bits, but take {self.product_bits}",
                hint="use a narrower value_format, fewer weight_fraction_bits or a shorter max_length",
                field=("max_length",),
            )

    def _check_plan(self) -> None:
        plan = self.plan
        wanted = (_SPLITS, _LOOPS, {"m0": Axis.ROWS, "p0": Axis.COLUMNS})
        if (dict(plan.splits), tuple(plan.loops), dict(plan.axes)) != wanted:
            raise InputError(
                "plan must have the splits, loops and axes of the template spatial-array-1pass",
                hint="change only its epoch, offsets and copies",
                field=("plan",),
            )
        arrays = {name: array for name, (array, _) in EINSUMS.items()}
        if dict(plan.binding) != {name: arrays.get(name) for name in plan.binding} or len(plan.binding) != len(arrays):
            raise InputError(
                "plan must bind BQK, LM, SLN, SLD and SLNV to array 2d and RM, PRM, SPD, RD, SPNV, RNV and AV to 1d",
                hint="change only the order",
                field=("plan", "epoch"),
            )
        gap = next((offset for offset in range(plan.depth) if offset not in plan.offsets.values()), None)
        if gap is not None:
            raise InputError(
                f"offsets must use every number from 0 to {plan.depth}, but none is {gap}: an epoch that does nothing "
                "would still take a cycle",
                hint="lower the offsets above it by 1",
                field=("plan", "offsets"),
            )
        homes = {tensor: home.within for tensor, home in plan.residency.items() if home.level is Level.BUFFER}
        if homes != _IN_BUFFER:
            raise InputError(
                "plan must keep Q, RM, RD and RNV in the buffer within p2, K and V within m1, and nothing else",
                hint="take the residency of the template spatial-array-1pass",
                field=("plan", "residency"),
            )
        for tensor in INPUTS:
            copies = plan.residency[tensor].copies
            if copies.bit_count() != 1 or copies > 8:
                raise InputError(
                    f"copies of {tensor} must be 1, 2, 4 or 8, not {copies}",
                    hint="use 2: one is read while the other is filled",
                    field=("plan", "residency", tensor, "copies"),
                )

    @classmethod
    def of(
        cls,
        architecture: Architecture,
        schedule: Schedule,
        *,
        query_key_dim: int,
        value_dim: int,
        max_length: int,
        query_format: FixedPoint,
        key_format: FixedPoint,
        value_format: FixedPoint,
        output_format: FixedPoint,
        weight_fraction_bits: int = 15,
    ) -> AttentionArray:
        """Return the array of an architecture and a schedule, which say all but sizes and formats.

        Parameters
        ----------
        architecture : Architecture
            Arrays ``2d`` and ``1d`` of as many columns. Every operator takes one cycle but ``exp``, whose cycles, the
            same on both, choose the degree of the polynomial.
        schedule : Schedule
            Of the cascade attention-1pass: tile sizes and plan.
        query_key_dim, value_dim, max_length, weight_fraction_bits : int
            As the fields.
        query_format, key_format, value_format, output_format : FixedPoint
            As the fields.

        Raises
        ------
        InputError
            The cascade is another one, the arrays or operators are not those of this machine, or a field is out of
            range.
        """
        if schedule.cascade != CASCADE:
            raise InputError(
                f"the schedule must be for cascade {CASCADE!r}, not {schedule.cascade!r}", field=("cascade",)
            )
        arrays = architecture.arrays
        shapes = {name: (array.rows, array.columns) for name, array in arrays.items()}
        if set(shapes) != {"2d", "1d"} or shapes["1d"] != (1, shapes["2d"][1]):
            raise InputError(
                f"architecture {architecture.name!r} must have an array 2d and, of one row and as many columns, 1d",
                hint="start from fpga-attention-8x8",
                field=("arrays",),
            )
        cycles = {
            (name, operator): each.cycles
            for name, array in arrays.items()
            for operator, each in array.operators.items()
        }
        exps = {cycles.pop((name, "exp"), 0) for name in arrays}
        slow = next((key for key, value in cycles.items() if value != 1), None)
        if len(exps) > 1 or not 2 <= min(exps) <= 7 or slow is not None:
            raise InputError(
                f"architecture {architecture.name!r} must have exp of 2 to 7 cycles, alike in both arrays, and all "
                "other operators of 1 cycle",
                hint="start from fpga-attention-8x8",
                field=("arrays", slow[0] if slow else "2d", "operators", slow[1] if slow else "exp"),
            )
        return cls(
            rows=arrays["2d"].rows,
            columns=arrays["2d"].columns,
            query_key_dim=query_key_dim,
            value_dim=value_dim,
            max_length=max_length,
            keys_per_tile=schedule.tiles["m0"],
            queries_per_tile=schedule.tiles["p0"],
            query_tiles=schedule.tiles["p1"],
            plan=schedule.plan,
            query_format=query_format,
            key_format=key_format,
            value_format=value_format,
            output_format=output_format,
            exponential=Exponential(degree=exps.pop() - 1, weight_fraction_bits=weight_fraction_bits),
        )

    # Sizes ---------------------------------------------------------------------------------------------------------

    @property
    def turns(self) -> int:
        """Most keys of a tile in one PE, k: ``ceil(m0 / R)``."""
        return -(-self.keys_per_tile // self.rows)

    @property
    def stages(self) -> int:
        """Cycles of a difference and its exponential."""
        return 1 + self.exponential.cycles

    @property
    def weight_fraction_bits(self) -> int:
        """Fraction bits w of a weight."""
        return self.exponential.weight_fraction_bits

    # Widths --------------------------------------------------------------------------------------------------------

    @property
    def score_fraction_bits(self) -> int:
        """Fraction bits of a score."""
        return self.query_format.fraction_bits + self.key_format.fraction_bits

    @property
    def score_bits(self) -> int:
        """Width of a score, exact: a sum of E products."""
        largest = self.query_key_dim * self.query_format.min_code * self.key_format.min_code
        return 1 + largest.bit_length()

    @property
    def score_floor(self) -> int:
        """The smallest number of a score's width, which stands for minus infinity: no score reaches it."""
        return -(1 << (self.score_bits - 1))

    @property
    def weight_bits(self) -> int:
        """Width of a weight, which is at most 1."""
        return self.weight_fraction_bits + 1

    @property
    def tile_value_bits(self) -> int:
        """Width of SLNV, exact."""
        return 1 + (self.keys_per_tile * -self.value_format.min_code << self.weight_fraction_bits).bit_length()

    @property
    def tile_sum_bits(self) -> int:
        """Width of SLD, exact."""
        return (self.keys_per_tile << self.weight_fraction_bits).bit_length()

    @property
    def link_bits(self) -> int:
        """Width of the link from a PE to the one below it: it carries one of Q, LM, SLD and SLNV in a cycle."""
        return max(self.query_format.width_bits, self.score_bits, self.tile_value_bits, self.tile_sum_bits + 1)

    @property
    def row_link_bits(self) -> int:
        """Width of the link from a PE to the one on its right: it carries K or V in a cycle."""
        return max(self.key_format.width_bits, self.value_format.width_bits)

    @property
    def sum_bits(self) -> int:
        """Width of RD: N weights of at most 1, and no correction factor above 1."""
        return (self.max_length << self.weight_fraction_bits).bit_length()

    @property
    def value_bits(self) -> int:
        """Width of RNV, likewise."""
        return 1 + (self.max_length * -self.value_format.min_code << self.weight_fraction_bits).bit_length()

    @property
    def reciprocal_fraction_bits(self) -> int:
        """Fraction bits r of the normalised sum and of its reciprocal."""
        return self.weight_fraction_bits

    @property
    def product_bits(self) -> int:
        """Width of a running value times a correction factor or a reciprocal."""
        return self.value_bits + self.exponential.value_bits

    @cached_property
    def reciprocal(self) -> LinearTable:
        """Table of the first guess of a reciprocal, good enough for one Newton step to reach r bits."""
        bits = self.reciprocal_fraction_bits
        guess_bits = bits // 2 + 3
        return reciprocal_table(
            segments=1 << min(bits - 1, max(1, (guess_bits - 1) // 2)),
            argument_bits=bits,
            result_fraction_bits=guess_bits,
            guard_bits=2,
        )

    # Errors --------------------------------------------------------------------------------------------------------

    def error_bound(
        self, keys: int, *, largest: float | None = None, total: float = 1.0, rises: int | None = None
    ) -> float:
        """Return a bound on the distance of any AV from exact attention on the quantized Q, K and V, before saturation.

        A weight is off relatively by at most ``q = (1 + delta)**(1 + rises) - 1``: its own exponential and a
        correction for each later key tile that raises the maximum, delta being ``exponential.relative_error``; a tile
        that does not raise it corrects by exactly 1, without rounding. It is off absolutely by at most
        ``weight_error``, and each such correction rounds the row's sums by half a step; call what is absolute, over all
        keys, a. With a sum S of exact weights and values of at most v the quotient moves by at most
        ``2 v (q S + a) / (S (1 - q) - a) = 2 v (q + a / S) / (1 - q - a / S)``. The reciprocal adds its relative error,
        the output a step. A mean of values cannot move by more than 2 v.

        Without the last three parameters it holds for all inputs: the largest weight is exactly 1, so S is at least 1.

        Parameters
        ----------
        keys : int
            Keys M of the row.
        largest : float, optional
            v, the largest magnitude of a value; by default that of the format.
        total : float
            S, or less; at least 1.
        rises : int, optional
            Key tiles after the first that raise the row's maximum; by default all of them.
        """
        later = -(-keys // self.keys_per_tile) - 1 if rises is None else rises
        v = -self.value_format.min_value if largest is None else largest
        relative = math.expm1((1 + later) * math.log1p(self.exponential.relative_error))
        absolute = keys * self.exponential.weight_error + later * 2.0 ** -(self.weight_fraction_bits + 1)
        spread = relative + absolute / total
        moved = 2 * v * (spread / (1 - spread) if spread < 0.5 else 1.0)
        reciprocal = newton_reciprocal_error(self.reciprocal, self.reciprocal_fraction_bits)
        return moved + (v + moved) * reciprocal + self.output_format.resolution
