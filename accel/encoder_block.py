"""A transformer encoder block as a program of the block unit: where everything lies, and the operations in their order.

The block is that of the vision transformers (pre-norm): with x the residual stream,

    y = norm(x);  q, k, v = linear(y);  x += linear(attention(q, k, v))
    y = norm(x);  x += linear(gelu(linear(y)))                            dense
    y = norm(x);  x += sum over chosen experts e of score_e * expert_e(y)  mixture of experts

Both residual additions are those of the linear unit; the scale and the shift of a norm fold into the weights and biases
of the layers that read it (``accel.norm_unit``). In front there may be a patch embedding, which is a linear layer too:
it adds the embedded patches to the position embeddings, which are loaded into x, behind a class token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from accel.activation_unit import ActivationUnit
from accel.block_unit import Attend, BlockUnit, Experts, Gate, Linear, Load, Normalise, Operation, Store
from accel.errors import InputError
from accel.gate_unit import GateUnit
from accel.linear_unit import LinearUnit
from accel.norm_unit import NormUnit
from accel.numerics import FixedPoint, Rounding
from accel.reordered_unit import ReorderedUnit

__all__ = ["EncoderBlock", "EncoderMap"]


@dataclass(frozen=True, kw_only=True)
class EncoderMap:
    """First word of each region of the memory, and the words that all take."""

    stream: int
    normed: int
    queries: int
    keys: int
    values: int
    attended: int
    hidden: int
    logits: int
    patches: int
    words: int


@dataclass(frozen=True, kw_only=True)
class EncoderBlock:
    """Sizes of an encoder block.

    Parameters
    ----------
    tokens : int
        Rows, N, a class token included.
    features : int
        Width of the residual stream; a multiple of ``heads``.
    heads : int
        Attention heads.
    hidden_features : int
        Of the dense layers, or of each expert.
    experts : int
        0 for a dense block.
    patch_features : int
        Of an input patch; 0 for a block without an embedding in front.

    Raises
    ------
    InputError
        A size is below 1, or heads do not divide the features.
    """

    tokens: int
    features: int
    heads: int
    hidden_features: int
    experts: int = 0
    patch_features: int = 0

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every size."""
        for name, low in (
            ("tokens", 2 if self.patch_features else 1),
            ("features", 1),
            ("heads", 1),
            ("hidden_features", 1),
            ("experts", 0),
            ("patch_features", 0),
        ):
            if getattr(self, name) < low:
                raise InputError(
                    f"{name} must be at least {low}, not {getattr(self, name)}", hint=f"use {low}", field=(name,)
                )
        if self.features % self.heads:
            raise InputError(
                f"features must be a multiple of heads ({self.heads}), not {self.features}",
                hint=f"use {-(-self.features // self.heads) * self.heads}",
                field=("features",),
            )

    @property
    def head_features(self) -> int:
        """Features of a head."""
        return self.features // self.heads

    def memory(self, unit: BlockUnit) -> EncoderMap:
        """Return where everything lies.

        Raises
        ------
        InputError
            The unit lacks a part, or the memory is too small.
        """
        self._check(unit)
        found = self._map(unit.linear.tile, unit.max_rows)
        if found.words > unit.memory_words:
            raise InputError(
                f"memory_words must be at least {found.words} for this block, not {unit.memory_words}",
                hint=f"use {found.words}",
                field=("memory_words",),
            )
        return found

    def _map(self, tile: int, max_rows: int) -> EncoderMap:
        row = -(-self.features // tile)
        sizes = {
            "stream": self.tokens * row,
            **dict.fromkeys(("normed", "queries", "keys", "values", "attended"), self.tokens * row),
            # Which expert gets how many tokens is not known before: one may get all that a list holds.
            "hidden": (max_rows if self.experts else self.tokens) * -(-self.hidden_features // tile),
            "logits": self.tokens * -(-self.experts // tile),
            "patches": (self.tokens - 1) * -(-self.patch_features // tile),
        }
        starts, at = {}, 0
        for name, size in sizes.items():
            starts[name], at = at, at + size
        return EncoderMap(**starts, words=at)

    def fitting_unit(
        self,
        *,
        tile: int,
        feature_format: FixedPoint,
        weight_format: FixedPoint,
        slots: int = 4,
        top_k: int = 2,
        renormalise: bool = False,
        activation: str = "gelu",
    ) -> BlockUnit:
        """Return the smallest unit that runs this block.

        Parameters
        ----------
        tile : int
            Features of a word; it divides the features of a head.
        feature_format, weight_format : FixedPoint
            Of all features, and of all weights. The activation is within a step of the features, or two if they
            truncate.
        slots : int
            Query rows in work at a time.
        top_k : int
            Experts of a token.
        renormalise : bool
            Divide the scores of a token by their sum.
        activation : str
            Between the two layers.

        Raises
        ------
        InputError
            A parameter is out of range.
        """
        if tile > 0 and self.head_features % tile:
            largest = min(32, self.head_features & -self.head_features)
            raise InputError(
                f"the features of a head ({self.head_features}) must be a multiple of tile ({tile})",
                hint=f"use tile {largest}" if largest > 1 else "use heads of an even number of features",
                field=("heads",),
            )
        linear = self._fitting_linear(tile, feature_format, weight_format, activation)
        gate = (
            GateUnit(
                experts=self.experts,
                top_k=min(top_k, self.experts),
                logit_format=feature_format,
                score_fraction_bits=linear.score_fraction_bits,
                renormalise=renormalise,
            )
            if self.experts
            else None
        )
        rows = max(2, self.tokens)
        return BlockUnit(
            linear=linear,
            memory_words=self._map(tile, rows).words,
            max_rows=rows,
            norm=NormUnit(
                function="layernorm",
                max_length=self.features,
                lanes=tile,
                input_format=feature_format,
                output_format=feature_format,
            ),
            attention=ReorderedUnit(
                max_length=rows,
                key_features=self.head_features,
                value_features=self.head_features,
                slots=slots,
                block=tile,
                banks=1,
                query_format=feature_format,
                key_format=feature_format,
                value_format=feature_format,
                output_format=feature_format,
            ),
            gate=gate,
        )

    def _fitting_linear(self, tile: int, features: FixedPoint, weights: FixedPoint, activation: str) -> LinearUnit:
        """Return the smallest linear unit for all layers of the block."""
        wide = self.features
        shapes = [(wide, wide), (wide, self.hidden_features), (self.patch_features, wide), (wide, self.experts)]
        engine = LinearUnit(
            tile=tile,
            max_features=max(max(shape) for shape in shapes),
            weight_tiles=max(-(-inputs // tile) * -(-outputs // tile) for inputs, outputs in shapes),
            feature_format=features,
            weight_format=weights,
        )
        steps = 2 if features.rounding is Rounding.TRUNCATE else 1
        curve = ActivationUnit(
            function=activation,
            max_error=steps * features.resolution,
            lanes=tile,
            input_format=features,
            output_format=features,
        )
        return replace(engine, activation=curve)

    def _check(self, unit: BlockUnit) -> None:
        missing = [name for name in ("norm", "attention") if getattr(unit, name) is None]
        missing += ["activation"] if unit.linear.activation is None else []
        missing += ["gate"] if self.experts and unit.gate is None else []
        if missing or unit.attention is None:
            raise InputError(
                f"an encoder block needs a unit with {', '.join(missing)}, but it has none", hint="give them"
            )
        if unit.attention.key_features != self.head_features:
            raise InputError(
                f"the attention of the unit must have heads of {self.head_features} features, "
                f"not {unit.attention.key_features}",
                hint="set its key_features and value_features",
            )
        if self.experts and unit.gate is not None and unit.gate.experts != self.experts:
            raise InputError(
                f"the gate of the unit must have {self.experts} experts, not {unit.gate.experts}",
                hint="give both the same number",
            )

    def program(self, unit: BlockUnit) -> tuple[Operation, ...]:
        """Return the operations, from loading x to storing it.

        Raises
        ------
        InputError
            As ``memory``.
        """
        at = self.memory(unit)
        rows = self.tokens
        words = rows * unit.linear.blocks(self.features)
        wide, hidden = self.features, self.hidden_features

        def layer(source: int, target: int, inputs: int, outputs: int, *, mode: str = "", after: str = "all") -> Linear:
            return Linear(
                source=source,
                target=target,
                rows=rows,
                in_features=inputs,
                out_features=outputs,
                accumulate=mode == "accumulate",
                activate=mode == "activate",
                after=after,
            )

        normalise = Normalise(source=at.stream, target=at.normed, rows=rows, features=wide)
        operations: list[Operation] = [Load(target=at.stream, words=words), *self._embedding(unit, at), normalise]
        for target in (at.queries, at.keys, at.values):
            after = "all" if target == at.queries else "nothing"
            operations.append(layer(at.normed, target, wide, wide, after=after))
        operations += [
            Attend(queries=at.queries, keys=at.keys, values=at.values, target=at.attended, rows=rows, heads=self.heads),
            layer(at.attended, at.stream, wide, wide, mode="accumulate"),
            normalise,
        ]
        if self.experts:
            operations += [
                layer(at.normed, at.logits, wide, self.experts),
                Gate(source=at.logits, rows=rows),
                Experts(source=at.normed, hidden=at.hidden, target=at.stream, in_features=wide, hidden_features=hidden),
            ]
        else:
            operations += [
                layer(at.normed, at.hidden, wide, hidden, mode="activate"),
                layer(at.hidden, at.stream, hidden, wide, mode="accumulate", after="rows"),
            ]
        return (*operations, Store(source=at.stream, words=words))

    def _embedding(self, unit: BlockUnit, at: EncoderMap) -> list[Operation]:
        """Return what adds the embedded patches to the positions, from the second row on."""
        if not self.patch_features:
            return []
        patches = self.tokens - 1
        return [
            Load(target=at.patches, words=patches * unit.linear.blocks(self.patch_features)),
            Linear(
                source=at.patches,
                target=at.stream + unit.linear.blocks(self.features),
                rows=patches,
                in_features=self.patch_features,
                out_features=self.features,
                accumulate=True,
            ),
        ]
