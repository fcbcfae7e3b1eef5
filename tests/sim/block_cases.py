"""Random programs of the block unit, for its tests and its benchmark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accel.activation_unit import ActivationUnit
from accel.block_program import check_program
from accel.block_unit import Attend, BlockUnit, Experts, Gate, Linear, Load, LoadList, Normalise, Operation, Store
from accel.errors import InputError
from accel.gate_unit import GateUnit
from accel.linear_unit import LinearUnit
from accel.norm_unit import NormUnit
from accel.numerics import FixedPoint
from accel.reordered_unit import ReorderedUnit
from sim.golden.block import BlockData
from sim.golden.linear import Layer

FEATURES = FixedPoint.parse("s12f6,nearest_even,saturate")
WEIGHTS = FixedPoint.parse("s8f6,nearest_even,saturate")


def make_linear(*, tile: int = 4, **changes: object) -> LinearUnit:
    """A linear unit with GELU."""
    gelu = ActivationUnit(function="gelu", max_error=2.0**-5, lanes=tile, input_format=FEATURES, output_format=FEATURES)
    settings: dict[str, object] = {
        "tile": tile,
        "max_features": 24,
        "weight_tiles": 576 // tile**2,
        "feature_format": FEATURES,
        "weight_format": WEIGHTS,
        "activation": gelu,
    }
    return LinearUnit(**(settings | changes))  # type: ignore[arg-type]


LINEAR = BlockUnit(linear=make_linear(), memory_words=128, max_rows=9, lists=3)
"""The linear unit alone, with room for three lists."""

BLOCK = BlockUnit(
    linear=make_linear(tile=2),
    memory_words=768,
    max_rows=9,
    norm=NormUnit(function="layernorm", max_length=12, lanes=2, input_format=FEATURES, output_format=FEATURES),
    attention=ReorderedUnit(
        max_length=9,
        key_features=4,
        value_features=4,
        slots=2,
        block=2,
        banks=1,
        query_format=FEATURES,
        key_format=FEATURES,
        value_format=FEATURES,
        output_format=FEATURES,
        weight_fraction_bits=10,
        guard_bits=4,
        exp_segments=16,
    ),
    gate=GateUnit(experts=6, top_k=2, logit_format=FEATURES),
)
"""Everything that a transformer block needs, for rows of 12 features and 3 heads."""


@dataclass
class Case:
    """A program under construction, with its data."""

    unit: BlockUnit
    source: np.random.Generator
    program: list[Operation] = field(default_factory=list)
    features: list[np.ndarray] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    experts: list[dict[int, tuple[Layer, Layer]]] = field(default_factory=list)
    entries: dict[int, int] = field(default_factory=dict)

    @property
    def data(self) -> BlockData:
        return BlockData(features=self.features, layers=self.layers, experts=self.experts)

    def layer(self, inputs: int, outputs: int, *, spread: float | None = None) -> Layer:
        """Weights from end to end of their format, or near 0, and biases of any size."""
        linear = self.unit.linear
        element, bias = linear.weight_format, linear.bias_format
        shape = (outputs, inputs)
        if spread is None:
            weights = self.source.integers(element.min_code, element.max_code + 1, shape)
        else:
            weights = np.rint(self.source.normal(0, spread, shape)).astype(np.int64)
        biases = np.rint(self.source.normal(0, 2 ** self.source.uniform(0, 14), outputs)).astype(np.int64)
        return Layer(
            weights=np.clip(weights, element.min_code, element.max_code),
            biases=np.clip(biases, bias.min_code, bias.max_code),
        )

    def fill(self) -> None:
        """Load every word: reset does not clear the memory."""
        unit = self.unit
        element = unit.linear.feature_format
        shape = (unit.memory_words, unit.linear.tile)
        numbers = np.rint(self.source.normal(0, 2 ** self.source.uniform(2, element.width_bits - 2), shape))
        self.program.append(Load(target=0, words=unit.memory_words))
        self.features.append(np.clip(numbers, element.min_code, element.max_code).astype(np.int64))

    def fill_list(self, queue: int, tokens: np.ndarray) -> None:
        one = 1 << self.unit.linear.score_fraction_bits
        self.program.append(LoadList(queue=queue, entries=len(tokens)))
        self.features.append(np.stack([tokens, self.source.integers(0, one + 1, len(tokens))], axis=1))
        self.entries[queue] = len(tokens)

    def add(self, layer: Linear) -> None:
        self.program.append(layer)
        self.layers.append(self.layer(layer.in_features, layer.out_features))


def random_linear_program(source: np.random.Generator, unit: BlockUnit = LINEAR) -> Case:
    """Layers of any shape and mode in a row, with stores between."""
    case = Case(unit=unit, source=source)
    case.fill()
    for queue in range(unit.list_count):
        if source.random() < 0.7:
            count = int(source.integers(1, unit.max_rows + 1))
            case.fill_list(queue, source.integers(0, unit.max_rows, count))
    for _ in range(int(source.integers(1, 9))):
        if source.random() < 0.15:
            case.program.append(Store(source=int(source.integers(0, 100)), words=int(source.integers(1, 20))))
        else:
            case.add(_random_layer(case))
    case.program.append(Store(source=0, words=unit.memory_words))
    return case


def _random_layer(case: Case) -> Linear:
    """A layer that may follow what is there; one that may not come early comes after all."""
    source, linear = case.source, case.unit.linear
    before = case.program[-1]
    while True:
        inputs, outputs = (int(each) for each in source.integers(1, 21, 2))
        if linear.row_cycles(inputs, outputs) <= 12:
            break
    start, target = ((0, 64), (64, 0), (4, 80), (70, 10))[int(source.integers(4))]
    settings: dict[str, Any] = {
        "source": start,
        "target": target,
        "rows": int(source.integers(1, 10)),
        "in_features": inputs,
        "out_features": outputs,
        "activate": bool(source.random() < 0.4),
        "accumulate": bool(source.random() < 0.5),
    }
    after = str(source.choice(["all", "nothing", "rows"]))
    chained = after == "rows" and isinstance(before, Linear) and before.after != "rows" and not before.scatter
    if case.entries and source.random() < 0.6:
        queue = int(source.choice(list(case.entries)))
        listed = {"gather": bool(source.random() < 0.6), "scatter": bool(source.random() < 0.6)}
        settings |= {**listed, "queue": queue, "rows": min(settings["rows"], case.entries[queue])}
        settings["weighted"] = bool(settings["accumulate"] and any(listed.values()) and source.random() < 0.7)
    if chained:
        assert isinstance(before, Linear)
        settings |= {
            "source": before.target,
            "target": 0 if before.target >= 64 else 64,
            "rows": before.rows,
            "source_stride": linear.blocks(before.out_features),
            "in_features": min(inputs, before.out_features),
            "gather": False,
            "scatter": False,
            "weighted": False,
        }
    for choice in ((after,) if chained else ("nothing",)) if after != "all" else ():
        layer = Linear(**settings, after=choice)
        try:
            check_program(case.unit, [*case.program, layer])
        except InputError:
            continue
        return layer
    return Linear(**settings, after="all")


WIDTH = 12
"""Features of a row of the block."""


def random_block_program(source: np.random.Generator, unit: BlockUnit = BLOCK) -> Case:
    """Norms, attention, gates, experts and layers in any order that makes sense of the memory."""
    case = Case(unit=unit, source=source)
    rows = int(source.integers(1, unit.max_rows + 1))
    stream, normed, queries, keys, values, attended, logits, hidden = range(0, 512, 64)
    case.fill()
    common: dict[str, Any] = {"rows": rows, "in_features": WIDTH, "out_features": WIDTH}
    for _ in range(int(source.integers(1, 3))):
        if source.random() < 0.7:
            features = int(source.integers(9, 13))
            case.program.append(Normalise(source=stream, target=normed, rows=rows, features=features))
        if source.random() < 0.7:
            for place, target in enumerate((queries, keys, values)):
                after = "nothing" if place else "all"
                case.add(Linear(source=normed, target=target, after=after, **common))
        if source.random() < 0.8:
            case.program.append(Attend(queries=queries, keys=keys, values=values, target=attended, rows=rows, heads=3))
            case.add(Linear(source=attended, target=stream, accumulate=True, **common))
        if source.random() < 0.3:
            case.program.append(Store(source=0, words=5))
        if source.random() < 0.8:
            case.add(Linear(source=normed, target=logits, rows=rows, in_features=WIDTH, out_features=6))
            case.program.append(Gate(source=logits, rows=rows))
            if source.random() < 0.3:
                case.add(Linear(source=normed, target=keys, **common))
            for _ in range(int(source.integers(0, 3))):
                _add_experts(case, normed, hidden, stream, int(source.integers(1, 25)))
        if source.random() < 0.5:
            case.add(Linear(source=normed, target=hidden, rows=rows, in_features=12, out_features=24, activate=True))
            case.add(
                Linear(
                    source=hidden,
                    target=stream,
                    rows=rows,
                    in_features=24,
                    out_features=12,
                    accumulate=True,
                    after="rows",
                )
            )
    case.program.append(Store(source=0, words=640))
    return case


def _add_experts(case: Case, source: int, hidden: int, target: int, features: int) -> None:
    case.program.append(
        Experts(source=source, hidden=hidden, target=target, in_features=WIDTH, hidden_features=features)
    )
    assert case.unit.gate is not None
    case.experts.append(
        {
            expert: (case.layer(WIDTH, features, spread=20), case.layer(features, WIDTH, spread=20))
            for expert in range(case.unit.gate.experts)
        }
    )
