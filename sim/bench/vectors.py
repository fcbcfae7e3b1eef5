"""Test vectors of a block, from its golden model: what goes in at each port, and what must come out, beat by beat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.activation_unit import ActivationUnit
from accel.closed_activation_unit import ClosedActivationUnit
from accel.norm_unit import NormUnit
from accel.numerics import FixedPoint
from accel.primitive_unit import PrimitiveUnit
from accel.reordered_schedule import AttentionJob
from accel.reordered_unit import ReorderedUnit
from accel.softmax_family import UnifiedMaxUnit
from accel.softmax_rows import ScoreRows
from rtl.axi import AxisWrapper, FlatWrapper, PortWrapper, lane_bytes
from rtl.contract import StreamUnit
from rtl.stream import Beat
from sim.beats import number_bytes
from sim.golden.activation import activation
from sim.golden.closed_activation import closed_activation
from sim.golden.norm import norm
from sim.golden.primitive import primitive
from sim.golden.reordered import Head, reordered_attention
from sim.golden.softmax_family import golden_rows
from sim.golden.unified_max import unified_max_times
from sim.reordered import streams_of

__all__ = ["vectors_of"]

Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]

ROW_BEATS = 64
"""Longest row in the vectors, in beats: a bench shall run in seconds."""
RANDOM_ROWS = 12


@dataclass(frozen=True, kw_only=True)
class _Beats:
    """Beats of one stream.

    Parameters
    ----------
    codes : ndarray[beats, lanes], int64
        Codes; 0 where none is kept.
    keep : ndarray[beats, lanes], bool
        Which lanes hold one.
    last : ndarray[beats], bool
        Which beats end a row.
    """

    codes: Codes
    keep: Flags
    last: Flags


def vectors_of(component: PortWrapper) -> dict[str, Any] | None:
    """Return the vectors of a block behind its ports as plain data, or None if it has no golden model here.

    The keys are what ``sim.bench.stream`` reads: ``clock``, ``reset``, ``reset_level``; ``sources`` and ``sinks``, each
    with the names ``valid``, ``ready`` and ``fields`` of its signals and its ``beats``, a hexadecimal number for each
    field; ``cycles``, those of the answers from the first beat accepted on when no port waits, or None.
    """
    unit = getattr(component.core, "unit", None)
    if isinstance(unit, ReorderedUnit):
        return _reordered_vectors(component)
    if isinstance(component, AxisWrapper | FlatWrapper):
        for kind, answer in _GOLDEN.items():
            if isinstance(unit, kind):
                rows = _rows(unit)
                return _stream_vectors(component, rows, answer(unit, rows))
    return None


def _rows(unit: Any) -> list[Codes]:
    """Return rows of codes: of length 1, of equal numbers, of both ends, and random ones of several spreads."""
    random = np.random.default_rng(7)
    low, high = unit.input_format.min_code, unit.input_format.max_code
    most = min(getattr(unit, "max_length", ROW_BEATS * unit.lanes), ROW_BEATS * unit.lanes)
    spike = np.full(most, low)
    spike[most // 3] = high
    rows = [spike, np.linspace(low, high, most).astype(np.int64)]
    for code in (low, max(low, 0), high):
        rows += [np.full(length, code) for length in (1, most)]
    step = 2.0**unit.input_format.fraction_bits
    for _ in range(RANDOM_ROWS):
        length = int(random.choice([1, random.integers(1, most + 1), most]))
        spread = random.choice([0.3, 1, 3, 10]) * step
        rows.append(np.clip(np.rint(random.normal(random.normal(0, step), spread, length)), low, high))
    return [row.astype(np.int64) for row in rows]


def _lanes(rows: Sequence[Codes], lanes: int) -> _Beats:
    """Return rows as beats, each row starting one."""
    counts = [-(-len(row) // lanes) for row in rows]
    codes, keep = np.zeros(sum(counts) * lanes, np.int64), np.zeros(sum(counts) * lanes, bool)
    starts = np.cumsum([0, *counts])
    for start, row in zip(starts[:-1] * lanes, rows, strict=True):
        codes[start : start + len(row)], keep[start : start + len(row)] = row, True
    last = np.zeros(sum(counts), bool)
    last[starts[1:] - 1] = True
    return _Beats(codes=codes.reshape(-1, lanes), keep=keep.reshape(-1, lanes), last=last)


def _family(unit: Any, rows: Sequence[Codes]) -> _Beats:
    """Return the answers of a unit of the softmax family: not every place that holds a score holds a result."""
    answers, whole = golden_rows(unit, rows), _lanes(rows, unit.lanes)
    return _Beats(
        codes=np.concatenate([answer.codes for answer in answers]).reshape(-1, unit.lanes),
        keep=np.concatenate([answer.keep for answer in answers]).reshape(-1, unit.lanes),
        last=whole.last,
    )


_GOLDEN: Mapping[type, Callable[[Any, Sequence[Codes]], _Beats]] = {
    ScoreRows: _family,
    ActivationUnit: lambda unit, rows: _lanes([activation(unit, row) for row in rows], unit.lanes),
    ClosedActivationUnit: lambda unit, rows: _lanes([closed_activation(unit, row) for row in rows], unit.lanes),
    PrimitiveUnit: lambda unit, rows: _lanes([primitive(unit, row) for row in rows], unit.lanes),
    NormUnit: lambda unit, rows: _lanes(norm(unit, rows), unit.lanes),
}
"""The golden model of each kind of unit, as beats."""


def _stream_vectors(component: PortWrapper, rows: Sequence[Codes], answers: _Beats) -> dict[str, Any]:
    """Return the vectors of a block with one stream in and one out."""
    core = component.core
    axi = isinstance(component, AxisWrapper)
    return {
        **_clock(axi=axi),
        "sources": [_port(core.source, core.source_beat, _lanes(rows, core.source_beat.lanes), "s_axis", axi=axi)],
        "sinks": [_port(core.sink, core.sink_beat, answers, "m_axis", axi=axi)],
        "cycles": (
            list(unified_max_times(core.unit, rows).beats_out)
            if isinstance(core.unit, UnifiedMaxUnit)
            else _cycles(core, [-(-len(row) // core.source_beat.lanes) for row in rows])
        ),
    }


def _clock(*, axi: bool) -> dict[str, Any]:
    return {"clock": "aclk" if axi else "clk", "reset": "aresetn" if axi else "rst", "reset_level": 0 if axi else 1}


def _cycles(core: StreamUnit, beats: Sequence[int]) -> list[int] | None:
    """Return the cycle of each answer by the contract's latency, for rows of so many ``beats`` sent without a gap."""
    contract = core.contract
    if contract.latency_span.startswith("from a beat"):
        return [cycle + contract.latency_cycles for cycle in range(sum(beats))]
    if not contract.latency_span.startswith("from a row's last beat"):
        return None
    cycles: list[int] = []
    sent, free = 0, 0
    for count in beats:
        sent += count
        start = max(sent - 1 + contract.latency_cycles, free)
        free = start + count
        cycles += range(start, free)
    return cycles


def _port(name: str, beat: Beat, beats: _Beats, prefix: str, *, axi: bool) -> dict[str, Any]:
    """Return the signals and words of a stream as the wrapper lays them out."""
    bits, size = beat.element.width_bits, lane_bytes(beat)
    if axi:
        fields = [f"{prefix}_{part}" for part in ("tdata", "tkeep", "tlast")]
        valid, ready = f"{prefix}_tvalid", f"{prefix}_tready"
    else:
        fields = [f"{name}_{part}" for part in (beat.field, "keep", "last")]
        valid, ready = f"{name}_valid", f"{name}_ready"
    each, kept = (8 * size, (1 << size) - 1) if axi else (bits, 1)
    words = []
    for codes, keep, last in zip(beats.codes.tolist(), beats.keep.tolist(), beats.last.tolist(), strict=True):
        data = sum((code & ((1 << each) - 1)) << (each * lane) for lane, code in enumerate(codes))
        lanes = sum((kept if there else 0) << ((size if axi else 1) * lane) for lane, there in enumerate(keep))
        words.append([f"{data:x}", f"{lanes:x}", f"{int(last)}"])
    return {"valid": valid, "ready": ready, "fields": fields, "beats": words}


def _reordered_vectors(component: PortWrapper) -> dict[str, Any]:
    """Return the vectors of an attention core: the settings of its heads, their Q, K and V, and the outputs."""
    unit: ReorderedUnit = component.core.unit
    random = np.random.default_rng(7)
    most = min(unit.max_length, 2 * unit.slots + 1, 24)
    heads = []
    for queries, keys, causal in ((most, most, False), (1, most, False), (most, most, True), (most, 1, False)):
        shapes = ((queries, unit.key_features), (keys, unit.key_features), (keys, unit.value_features))
        numbers = [
            _codes(random, shape, element)
            for shape, element in zip(shapes, (unit.query_format, unit.key_format, unit.value_format), strict=True)
        ]
        job = AttentionJob(queries=queries, keys=keys, causal=causal)
        heads.append(Head(job=job, queries=numbers[0], keys=numbers[1], values=numbers[2]))
    streams = streams_of(unit, heads)
    sources = [_plain(port, data, streams.last.get(port)) for port, data in streams.data.items()]
    outputs = [tensor.reshape(-1, unit.block) for tensor in reordered_attention(unit, heads).outputs]
    last = np.zeros(sum(map(len, outputs)), bool)
    last[np.cumsum([len(each) for each in outputs]) - 1] = True
    sinks = [_plain("m_axis", _extended(np.concatenate(outputs), unit.output_format), last)]
    return {**_clock(axi=True), "sources": sources, "sinks": sinks, "cycles": None}


def _codes(random: np.random.Generator, shape: tuple[int, int], element: FixedPoint) -> Codes:
    """Return normal numbers of a deviation of 1 in a format."""
    steps = np.rint(random.normal(0, 2.0**element.fraction_bits, shape))
    codes: Codes = np.clip(steps, element.min_code, element.max_code).astype(np.int64)
    return codes


def _extended(codes: Codes, element: FixedPoint) -> NDArray[np.uint8]:
    """Return ``codes``, ndarray[beats, numbers], as whole bytes that repeat the sign, ndarray[beats, bytes]."""
    size = number_bytes(element)
    data = np.ascontiguousarray(codes.astype("<i8")).view(np.uint8).reshape(*codes.shape, 8)[..., :size]
    return np.ascontiguousarray(data).reshape(len(codes), -1)


def _plain(port: str, data: NDArray[np.uint8], last: Flags | None) -> dict[str, Any]:
    """Return a stream without ``tkeep``, and without ``tlast`` if nothing ends."""
    fields = [f"{port}_tdata", *([] if last is None else [f"{port}_tlast"])]
    beats = [[int.from_bytes(row.tobytes(), "little")] for row in data]
    ends = [[]] * len(beats) if last is None else [[int(each)] for each in last]
    return {
        "valid": f"{port}_tvalid",
        "ready": f"{port}_tready",
        "fields": fields,
        "beats": [[f"{value:x}" for value in (*word, *end)] for word, end in zip(beats, ends, strict=True)],
    }
