"""The contract of the unified linear unit: one matrix engine for all linear layers, its arithmetic bit by bit.

Hardware (``rtl.linear``) and golden model (``sim.golden.linear``) are two independent readings of this page. One
instance serves every linear layer of a model; the dimensions of a layer come with its job. With T = ``tile``, a row of
n features takes ``ceil(n / T)`` words of T features. All quantities are integers, ``rnd`` rounds half up:

1. ``a[o] = bias[o] + sum over i of x[i] * w[o,i]``, exact; the bias has the fraction bits of the products. Features of
   the last word beyond ``in_features`` count as 0, whatever the memory holds there.
2. ``r[o]`` is a, rounded and saturated by ``feature_format``. Where the job says ``activate``, the activation follows:
   ``r[o] = activation(r[o])`` by ``accel.activation_unit``.
3. The target gets r. Where the job says ``accumulate``, it gets ``old + r``, saturated; where the row comes from a list
   and the job says ``weighted``, ``old + rnd(r * score / 2**score_fraction_bits)``, saturated. Features of the last
   word beyond ``out_features`` have r = 0.

Weights come as a stream, row by row as they lie in memory (``out_features`` rows of ``ceil(in / T)`` beats of T
weights), then the bias: two beats for each word of outputs, the low halves of T biases and then the high halves, each
half as wide as a weight. There are two banks: one is filled while the other is read.

Time. A *step* multiplies one word of a row by one tile of T x T weights; a row takes ``ceil(in / T) * ceil(out / T)``
steps, outputs outermost, and steps follow each other without a gap from tile to tile, row to row and job to job.
``fill_cycles`` lie before the first step of a job that finds the unit idle, ``latency_cycles`` between the last step
of a word of outputs and its being written; ``accel.block_cycles`` says when everything happens.

The design is after the unified linear module of Edge-MoE (ICCAD 2023, arXiv 2305.18691, section IV).
"""

from __future__ import annotations

from dataclasses import dataclass

from accel.activation_unit import ActivationUnit
from accel.checks import check_ranges
from accel.errors import InputError
from accel.numerics import FixedPoint, Overflow, Rounding

__all__ = ["LINEAR_ACTIONS", "LinearUnit"]

LINEAR_ACTIONS = {
    "mac": "multiply-accumulates of linear layers: in_features x out_features for each row",
    "weight_write": "beats of weights and biases written into a bank",
    "weight_read": "tiles of weights read: one for each step",
    "activate": "activations: out_features for each row of a job that says so",
    "scale": "multiplications by a score: out_features for each row of a weighted job",
    "accumulate": "additions into the memory: out_features for each row of a job that accumulates",
}
"""The actions that hardware counts and models predict, with their definitions."""

GELU_SLOPE = 1.13
"""Above the steepest slope of any activation of ``accel.activation_unit`` (GELU: 1.1290, near x = 1.414)."""

ACCUMULATOR_LIMIT_BITS = 62


@dataclass(frozen=True, kw_only=True)
class LinearUnit:
    """Parameters of the unified linear unit and everything that follows from them.

    Parameters
    ----------
    tile : int
        T: features in a word, and rows and columns of a tile of weights; a power of two from 2 to 32.
    max_features : int
        Most features of a row, in or out; 1 to 16384.
    weight_tiles : int
        Tiles that a bank of weights holds; 1 to 65536. A layer needs ``ceil(in / T) * ceil(out / T)``.
    feature_format : FixedPoint
        Of all features: signed, saturating, 4 to 18 bits.
    weight_format : FixedPoint
        Of the weights: signed, 2 to 18 bits, rounding to nearest where real numbers are quantized. Truncated weights
        are all wrong to the same side, and a sum of them is wrong by as much times the sum of the features.
    score_fraction_bits : int
        Fraction bits of the scores of a list, which go from 0 to 1; 2 to 15.
    activation : ActivationUnit, optional
        With ``feature_format`` in and out, and T lanes; without it no job may say ``activate``.

    Raises
    ------
    InputError
        A parameter is out of range, or a sum would need more than 62 bits.
    """

    tile: int
    max_features: int
    weight_tiles: int
    feature_format: FixedPoint
    weight_format: FixedPoint
    score_fraction_bits: int = 15
    activation: ActivationUnit | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every parameter."""
        if self.tile not in (2, 4, 8, 16, 32):
            raise InputError(
                f"tile must be a power of two from 2 to 32, not {self.tile}",
                hint=f"use {1 << (min(max(self.tile, 2), 32).bit_length() - 1)}",
                field=("tile",),
            )
        check_ranges(
            self,
            (
                ("max_features", 1, 16384),
                ("weight_tiles", 1, 65536),
                ("score_fraction_bits", 2, 15),
            ),
        )
        self._check_formats()
        self._check_activation()
        if self.accumulator_bits > ACCUMULATOR_LIMIT_BITS:
            raise InputError(
                f"the sums must fit in {ACCUMULATOR_LIMIT_BITS} bits, but need {self.accumulator_bits}",
                hint="use narrower formats or fewer max_features",
            )

    def _check_formats(self) -> None:
        for name, least in (("feature_format", 4), ("weight_format", 2)):
            element: FixedPoint = getattr(self, name)
            if not element.signed:
                raise InputError(
                    f"{name} must be signed, not {element}",
                    hint=f"use s{element.width_bits + 1}f{element.fraction_bits}",
                    field=(name, "signed"),
                )
            if not least <= element.width_bits <= 18:
                raise InputError(
                    f"{name} must have {least} to 18 bits, not {element.width_bits}",
                    hint="16 bits suit most models",
                    field=(name, "width_bits"),
                )
            if not 0 <= element.fraction_bits <= 24:
                raise InputError(
                    f"{name} must have 0 to 24 fraction bits, not {element.fraction_bits}",
                    hint="scale the numbers nearer to 1",
                    field=(name, "fraction_bits"),
                )
        if self.feature_format.overflow is not Overflow.SATURATE:
            raise InputError(
                f"feature_format must saturate, not {self.feature_format.overflow}",
                hint="use overflow 'saturate'",
                field=("feature_format", "overflow"),
            )
        if self.weight_format.rounding is Rounding.TRUNCATE:
            raise InputError(
                "weight_format must round to nearest, not truncate",
                hint="use rounding 'nearest_even'",
                field=("weight_format", "rounding"),
            )

    def _check_activation(self) -> None:
        if self.activation is None:
            return
        for name in ("input_format", "output_format"):
            given = getattr(self.activation, name)
            if given != self.feature_format:
                raise InputError(
                    f"{name} of the activation must be feature_format ({self.feature_format}), not {given}",
                    hint="give both the same format",
                    field=("activation", name),
                )
        if self.activation.lanes != self.tile:
            raise InputError(
                f"lanes of the activation must be tile ({self.tile}), not {self.activation.lanes}",
                hint=f"use {self.tile}",
                field=("activation", "lanes"),
            )

    def blocks(self, features: int) -> int:
        """Return the words of a row of ``features``."""
        return -(-features // self.tile)

    def row_cycles(self, in_features: int, out_features: int) -> int:
        """Return the steps of a row, which are its tiles of weights."""
        return self.blocks(in_features) * self.blocks(out_features)

    def cycles(self, rows: int, in_features: int, out_features: int) -> int:
        """Return the cycles of a layer beside others: rows x ceil(in / T) x ceil(out / T)."""
        return rows * self.row_cycles(in_features, out_features)

    def load_beats(self, in_features: int, out_features: int) -> int:
        """Return the beats of the weights and biases of a layer, which are the cycles that loading them takes."""
        return out_features * self.blocks(in_features) + 2 * self.blocks(out_features)

    @property
    def tree_stages(self) -> int:
        """Register stages of the tree that sums the T products of an output: two levels of additions each."""
        return -(-(self.tile - 1).bit_length() // 2)

    @property
    def activation_cycles(self) -> int:
        """Cycles of the activation, which all results pass or wait beside."""
        return 0 if self.activation is None else self.activation.latency_cycles - 1

    @property
    def sum_cycles(self) -> int:
        """Cycles from a step to its sum: operands 2, products 1, the tree, the running sum 1."""
        return 4 + self.tree_stages

    @property
    def latency_cycles(self) -> int:
        """Cycles from the last step of a word of outputs to its being written; a step a cycle later may read it.

        The sum; rounding 1; the activation; the scaled result 1; the addition to what was there 1.
        """
        return self.sum_cycles + 1 + self.activation_cycles + 2

    @property
    def fill_cycles(self) -> int:
        """Cycles from giving a job to an idle unit to its first step: queues 1 and 1, list 1, row 1, addresses 1."""
        return 5

    @property
    def bank_cycles(self) -> int:
        """Cycles from the last step that reads a bank until it may be filled again: its biases are read late."""
        return self.sum_cycles

    @property
    def product_fraction_bits(self) -> int:
        """Fraction bits of products, sums and biases."""
        return self.feature_format.fraction_bits + self.weight_format.fraction_bits

    @property
    def bias_bits(self) -> int:
        """Width of a bias as a signed number: two weights."""
        return 2 * self.weight_format.width_bits

    @property
    def bias_format(self) -> FixedPoint:
        """Format of the biases: as fine as the products, so that a bias costs no rounding of its own."""
        return FixedPoint(
            signed=True,
            width_bits=self.bias_bits,
            fraction_bits=self.product_fraction_bits,
            rounding=Rounding.NEAREST_EVEN,
            overflow=Overflow.SATURATE,
        )

    @property
    def accumulator_bits(self) -> int:
        """Width of a as a signed number: the words of the longest row times the ends of the formats, and a bias."""
        features = self.blocks(self.max_features) * self.tile
        most = features * self.feature_format.min_code * self.weight_format.min_code + (1 << (self.bias_bits - 1))
        return 1 + int(most).bit_length()

    @property
    def bank_bits(self) -> int:
        """Bits of weights in a bank."""
        return self.weight_tiles * self.tile**2 * self.weight_format.width_bits

    def error(self, *, activate: bool = False, accumulate: bool = False, weighted: bool = False) -> float:
        """Return a bound on the distance of a result from the exact function of its codes, where nothing saturates.

        The sums are exact. Rounding costs half a step of the features, or a whole one if they truncate; an activation
        passes it on times its steepest slope and adds its own error; a score rounds once more by half a step; adding
        is exact.

        Parameters
        ----------
        activate, accumulate, weighted : bool
            As the job says.

        Raises
        ------
        InputError
            There is no activation.
        """
        target = self.feature_format
        error = target.resolution / (1 if target.rounding is Rounding.TRUNCATE else 2)
        if activate:
            if self.activation is None:
                raise InputError("activate needs an activation, which the unit has not", hint="give it one")
            error = GELU_SLOPE * error + self.activation.worst_error
        if accumulate and weighted:
            error += target.resolution / 2
        return error
