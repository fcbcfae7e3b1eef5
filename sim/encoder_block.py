"""An encoder block with real weights: as data of the block unit's program, and as float64 arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.activation_unit import ACTIVATIONS
from accel.block_unit import BlockUnit
from accel.encoder_block import EncoderBlock
from sim.golden.block import BlockData
from sim.golden.linear import Layer, quantized_layer

__all__ = ["EncoderWeights", "encoder_data", "exact_encoder", "random_weights", "stream_of"]

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]
Dense = tuple[Reals, Reals]
"""Weights, ndarray[out, in], and biases, ndarray[out]."""


@dataclass(frozen=True, kw_only=True)
class EncoderWeights:
    """Real weights of an encoder block.

    Parameters
    ----------
    norms : sequence of (scale, shift)
        Of both norms, ndarray[features] each.
    attention : sequence of Dense
        Q, K, V and projection.
    dense : sequence of Dense
        Both layers of a dense block; empty for a mixture of experts.
    gate : Dense, optional
        Logits of the experts.
    experts : sequence of (Dense, Dense)
        Both layers of each expert.
    embedding : Dense, optional
        Of the patches.
    """

    norms: Sequence[tuple[Reals, Reals]]
    attention: Sequence[Dense]
    dense: Sequence[Dense] = ()
    gate: Dense | None = None
    experts: Sequence[tuple[Dense, Dense]] = ()
    embedding: Dense | None = None


def random_weights(block: EncoderBlock, source: np.random.Generator) -> EncoderWeights:
    """Return weights of the usual size: normal with variance 1 / inputs, norms near 1."""

    def dense(outputs: int, inputs: int) -> Dense:
        return source.normal(0, inputs**-0.5, (outputs, inputs)), source.normal(0, 0.1, outputs)

    wide, hidden = block.features, block.hidden_features
    norms = [(source.normal(1, 0.1, wide), source.normal(0, 0.1, wide)) for _ in range(2)]
    pair = [(dense(hidden, wide), dense(wide, hidden)) for _ in range(max(1, block.experts))]
    return EncoderWeights(
        norms=norms,
        attention=[dense(wide, wide) for _ in range(4)],
        dense=() if block.experts else pair[0],
        gate=dense(block.experts, wide) if block.experts else None,
        experts=pair if block.experts else (),
        embedding=dense(wide, block.patch_features) if block.patch_features else None,
    )


def _folded(layer: Dense, norm: tuple[Reals, Reals]) -> Dense:
    """Return the layer that takes what a norm leaves before its scale and shift: ``W (g y + s) + b``."""
    weights, biases = layer
    scale, shift = norm
    return weights * scale, weights @ shift + biases


def _words(unit: BlockUnit, rows: Reals) -> Codes:
    """Return rows of real features as words of the memory, ndarray[words, tile]."""
    linear = unit.linear
    padded = np.zeros((len(rows), linear.blocks(rows.shape[1]) * linear.tile))
    padded[:, : rows.shape[1]] = rows
    return linear.feature_format.quantize(padded).reshape(-1, linear.tile)


def encoder_data(
    unit: BlockUnit, block: EncoderBlock, weights: EncoderWeights, inputs: Reals, patches: Reals | None = None
) -> BlockData:
    """Return what ``block.program(unit)`` works on.

    Parameters
    ----------
    unit, block : BlockUnit, EncoderBlock
        Formats and sizes.
    weights : EncoderWeights
        Real weights; those behind a norm are folded with it, then rounded once.
    inputs : ndarray[tokens, features], float64
        The residual stream, or the class token and the position embeddings.
    patches : ndarray[tokens - 1, patch_features], float64, optional
        Patches to embed.

    Raises
    ------
    InputError
        A number does not fit its format.
    """

    def layer(dense: Dense, norm: int | None = None) -> Layer:
        return quantized_layer(unit.linear, *(dense if norm is None else _folded(dense, weights.norms[norm])))

    features, layers = [_words(unit, inputs)], []
    if weights.embedding is not None and patches is not None:
        features.append(_words(unit, patches))
        layers.append(layer(weights.embedding))
    layers += [layer(each, 0) for each in weights.attention[:3]]
    layers.append(layer(weights.attention[3]))
    if not block.experts:
        layers += [layer(weights.dense[0], 1), layer(weights.dense[1])]
        return BlockData(features=features, layers=layers)
    assert weights.gate is not None
    layers.append(layer(weights.gate, 1))
    experts = {number: (layer(first, 1), layer(second)) for number, (first, second) in enumerate(weights.experts)}
    return BlockData(features=features, layers=layers, experts=[experts])


def stream_of(unit: BlockUnit, block: EncoderBlock, words: Codes) -> Reals:
    """Return stored words of the residual stream as real numbers, ndarray[tokens, features]."""
    rows = words.reshape(block.tokens, -1)[:, : block.features]
    return unit.linear.feature_format.to_real(rows)


def exact_encoder(
    unit: BlockUnit, block: EncoderBlock, weights: EncoderWeights, inputs: Reals, patches: Reals | None = None
) -> Reals:
    """Return the block in float64, from the same real numbers, ndarray[tokens, features]; nothing is quantized.

    Which experts a token has is decided here too: where two scores are nearly equal, rounding may decide otherwise.
    """
    assert unit.norm is not None
    assert unit.linear.activation is not None
    curve = ACTIVATIONS[unit.linear.activation.function].exact
    stream = inputs.copy()
    if weights.embedding is not None and patches is not None:
        stream[1:] += _apply(weights.embedding, patches)
    normed = _norm(unit, stream, weights.norms[0])
    queries, keys, values = (_apply(each, normed) for each in weights.attention[:3])
    heads = []
    for head in range(block.heads):
        part = slice(head * block.head_features, (head + 1) * block.head_features)
        scores = queries[:, part] @ keys[:, part].T / np.sqrt(block.head_features)
        heads.append(_softmax(scores) @ values[:, part])
    stream = stream + _apply(weights.attention[3], np.concatenate(heads, axis=1))
    normed = _norm(unit, stream, weights.norms[1])
    if weights.gate is None:
        return stream + _apply(weights.dense[1], curve(_apply(weights.dense[0], normed)))
    assert unit.gate is not None
    scores = _softmax(_apply(weights.gate, normed))
    for row, token in enumerate(normed):
        chosen = np.argsort(-scores[row], kind="stable")[: unit.gate.top_k]
        total = scores[row, chosen].sum() if unit.gate.renormalise else 1.0
        for expert in chosen:
            first, second = weights.experts[expert]
            stream[row] += scores[row, expert] / total * _apply(second, curve(_apply(first, token)))
    return stream


def _apply(layer: Dense, rows: Reals) -> Reals:
    result: Reals = rows @ layer[0].T + layer[1]
    return result


def _softmax(scores: Reals) -> Reals:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Reals = powers / powers.sum(axis=-1, keepdims=True)
    return result


def _norm(unit: BlockUnit, rows: Reals, norm: tuple[Reals, Reals]) -> Reals:
    assert unit.norm is not None
    centred = rows - rows.mean(axis=1, keepdims=True) if unit.norm.centred else rows
    spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + unit.norm.epsilon)
    result: Reals = centred / spread * norm[0] + norm[1]
    return result
