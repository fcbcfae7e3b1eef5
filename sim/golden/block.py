"""Golden model of the block unit: what its memory, its lists and its outputs hold, by ``accel.block_unit``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accel.block_program import check_program, expert_layers, strides
from accel.block_unit import (
    Attend,
    BlockUnit,
    Experts,
    Gate,
    Linear,
    Load,
    LoadList,
    Normalise,
    Operation,
    Store,
)
from accel.errors import InputError
from accel.reordered_schedule import AttentionJob
from sim.golden.gate import Routing, gate
from sim.golden.linear import Layer, accumulate, linear
from sim.golden.norm import norm
from sim.golden.reordered import Head, reordered_attention

__all__ = ["BlockData", "GoldenBlock", "run_block_program"]

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class BlockData:
    """What a program works on.

    Parameters
    ----------
    features : sequence of ndarray
        For each ``Load`` in its turn the words, ndarray[words, tile], int64; for each ``LoadList`` the entries,
        ndarray[entries, 2], int64: rows and codes of scores.
    layers : sequence of Layer
        For each ``Linear`` in its turn.
    experts : sequence of mapping of int to (Layer, Layer)
        For each ``Experts`` in its turn, the two layers of each expert.
    """

    features: Sequence[Codes]
    layers: Sequence[Layer]
    experts: Sequence[Mapping[int, tuple[Layer, Layer]]] = ()


@dataclass(kw_only=True)
class GoldenBlock:
    """What the hardware must answer.

    Parameters
    ----------
    outputs : list of ndarray
        For each ``Store`` in its turn the words, ndarray[words, tile], int64; for each ``Gate`` experts and their
        numbers of tokens, ndarray[experts with work, 2], int64.
    used : list of Layer
        Layers in the order in which their weights are loaded.
    routings : list of Routing
        What each gate chose.
    actions : dict of str to int
        How often each action of the unit happens.
    memory : ndarray[memory_words, tile], int64
        The token memory at the end; words that were never written are 0.
    """

    outputs: list[Codes] = field(default_factory=list)
    used: list[Layer] = field(default_factory=list)
    routings: list[Routing] = field(default_factory=list)
    actions: dict[str, int] = field(default_factory=dict)
    memory: Codes


class _Machine:
    """The state of the unit, and one method for each operation."""

    def __init__(self, unit: BlockUnit, data: BlockData) -> None:
        self.unit = unit
        self.features, self.layers, self.experts = iter(data.features), iter(data.layers), iter(data.experts)
        self.lists: dict[int, list[tuple[int, int]]] = {}
        self.result = GoldenBlock(
            memory=np.zeros((unit.memory_words, unit.linear.tile), np.int64),
            actions=dict.fromkeys(unit.action_names, 0),
        )

    def count(self, **actions: int) -> None:
        for name, number in actions.items():
            self.result.actions[name] += number

    def row(self, start: int, features: int) -> Codes:
        """Return the features of a row, without what fills its last word."""
        words = self.unit.linear.blocks(features)
        if start + words > self.unit.memory_words:
            raise InputError(
                f"a list names a row at word {start}, beyond the {self.unit.memory_words} words of the memory",
                hint="list rows that are there",
            )
        return self.result.memory[start : start + words].reshape(-1)[:features]

    def write(self, start: int, features: Codes) -> None:
        """Write a row; what fills its last word is 0."""
        words = self.unit.linear.blocks(len(features))
        self.row(start, len(features))
        padded = np.zeros(words * self.unit.linear.tile, np.int64)
        padded[: len(features)] = features
        self.result.memory[start : start + words] = padded.reshape(words, -1)
        self.count(feature_write=words)

    def load(self, each: Load) -> None:
        words = next(self.features)
        if words.shape != (each.words, self.unit.linear.tile):
            raise InputError(
                f"the words of a Load must have the shape ({each.words}, {self.unit.linear.tile}), not {words.shape}",
                hint="as the operation says",
            )
        self.result.memory[each.target : each.target + each.words] = words
        self.count(feature_write=each.words)

    def load_list(self, each: LoadList) -> None:
        entries = next(self.features)
        if entries.shape != (each.entries, 2):
            raise InputError(
                f"the entries of a LoadList must have the shape ({each.entries}, 2), not {entries.shape}",
                hint="as the operation says",
            )
        low, most = int(entries.min()), entries.max(axis=0)
        if low < 0 or most[0] >= self.unit.max_rows or most[1] > 1 << self.unit.linear.score_fraction_bits:
            raise InputError(
                f"entries must be rows below {self.unit.max_rows} and scores from 0 to "
                f"{1 << self.unit.linear.score_fraction_bits}, not up to {int(most[0])} and {int(most[1])}",
                hint="scores are codes; 1 is the largest",
            )
        self.lists[each.queue] = [(int(token), int(score)) for token, score in entries]
        self.count(list_write=each.entries)

    def store(self, each: Store) -> None:
        self.result.outputs.append(self.result.memory[each.source : each.source + each.words].copy())
        self.count(feature_read=each.words)

    def layer(self, each: Linear, layer: Layer) -> None:
        unit = self.unit.linear
        if layer.weights.shape != (each.out_features, each.in_features):
            raise InputError(
                f"the weights of a Linear must have the shape ({each.out_features}, {each.in_features}), "
                f"not {layer.weights.shape}",
                hint="as the operation says",
            )
        self.result.used.append(layer)
        source_stride, target_stride = strides(self.unit, each)
        listed = each.gather or each.scatter
        entries = self.lists.get(each.queue, [])
        if listed and len(entries) < each.rows:
            raise InputError(
                f"list {each.queue} must have {each.rows} entries, not {len(entries)}", hint="load them first"
            )
        for place in range(each.rows):
            token, score = entries[place] if listed else (place, 0)
            source = each.source + (token if each.gather else place) * source_stride
            target = each.target + (token if each.scatter else place) * target_stride
            row = self.row(source, each.in_features)
            result = linear(unit, layer, row[None], activate=each.activate)[0]
            if each.accumulate:
                words = unit.blocks(each.out_features) * unit.tile
                old = self.row(target, words).copy()
                old[: each.out_features] = accumulate(
                    unit, old[: each.out_features], result, score if each.weighted else None
                )
                result = old
            self.write(target, result)
        self._count_layer(each)

    def _count_layer(self, each: Linear) -> None:
        unit = self.unit.linear
        numbers = each.rows * each.out_features
        steps = unit.cycles(each.rows, each.in_features, each.out_features)
        self.count(
            mac=numbers * each.in_features,
            weight_write=unit.load_beats(each.in_features, each.out_features),
            weight_read=steps,
            activate=numbers * each.activate,
            scale=numbers * each.weighted,
            accumulate=numbers * each.accumulate,
            feature_read=steps + each.rows * unit.blocks(each.out_features) * each.accumulate,
            list_read=each.rows * (each.gather or each.scatter),
        )

    def normalise(self, each: Normalise) -> None:
        assert self.unit.norm is not None
        words = self.unit.linear.blocks(each.features)
        rows = [self.row(each.source + row * words, each.features) for row in range(each.rows)]
        for row, result in enumerate(norm(self.unit.norm, rows)):
            self.write(each.target + row * words, result)
        self.count(feature_read=each.rows * words)

    def attend(self, each: Attend) -> None:
        attention = self.unit.attention
        assert attention is not None
        width, words = attention.key_features, each.heads * self.unit.head_blocks
        tensors = [
            np.array([self.row(start + row * words, each.heads * width) for row in range(each.rows)])
            for start in (each.queries, each.keys, each.values)
        ]
        for head in range(each.heads):
            part = slice(head * width, (head + 1) * width)
            job = AttentionJob(queries=each.rows, keys=each.rows)
            given = Head(job=job, queries=tensors[0][:, part], keys=tensors[1][:, part], values=tensors[2][:, part])
            (found,) = reordered_attention(attention, [given]).outputs
            for row, result in enumerate(found):
                self.write(each.target + row * words + head * self.unit.head_blocks, result)
        self.count(feature_read=3 * each.rows * words)

    def gate(self, each: Gate) -> None:
        unit = self.unit.gate
        assert unit is not None
        words = self.unit.linear.blocks(unit.experts)
        logits = np.array([self.row(each.source + row * words, unit.experts) for row in range(each.rows)])
        routing = gate(unit, logits)
        self.result.routings.append(routing)
        self.lists = {expert: list(entries) for expert, entries in routing.lists.items()}
        self.result.outputs.append(np.array(routing.chosen, np.int64))
        self.count(
            gate_score=each.rows * unit.experts,
            gate_reciprocal=each.rows * unit.renormalise,
            list_write=each.rows * unit.top_k,
            feature_read=each.rows * words,
        )

    def run_experts(self, each: Experts) -> None:
        layers = next(self.experts)
        for place, (expert, tokens) in enumerate(self.result.routings[-1].chosen):
            for layer, given in zip(expert_layers(each, expert, tokens, first=place == 0), layers[expert], strict=True):
                self.layer(layer, given)


def run_block_program(unit: BlockUnit, program: Sequence[Operation], data: BlockData) -> GoldenBlock:
    """Return what the unit does with a program, from an empty memory.

    Raises
    ------
    InputError
        The program is wrong, or an array has another shape than its operation says.
    """
    check_program(unit, program)
    machine = _Machine(unit, data)
    try:
        for each in program:
            if isinstance(each, Load):
                machine.load(each)
            elif isinstance(each, LoadList):
                machine.load_list(each)
            elif isinstance(each, Store):
                machine.store(each)
            elif isinstance(each, Linear):
                machine.layer(each, next(machine.layers))
            elif isinstance(each, Normalise):
                machine.normalise(each)
            elif isinstance(each, Attend):
                machine.attend(each)
            elif isinstance(each, Gate):
                machine.gate(each)
            else:
                machine.run_experts(each)
    except StopIteration:
        raise InputError(
            "the data must have an entry for each Load, LoadList, Linear and Experts, but has fewer",
            hint="give them in the order of the program",
        ) from None
    return machine.result
