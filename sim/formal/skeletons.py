"""The stream skeletons that are checked, each as a small block: what they do does not depend on widths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Module, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from accel.errors import InputError, did_you_mean
from accel.numerics import FixedPoint
from rtl.elastic import PipelineEnd
from rtl.lanes import LaneBlock
from rtl.softmax.rows import BufferedRows
from rtl.stream import MemoryFifo, delay, flow
from sim.formal.checker import Ports, StreamCheck

__all__ = ["SKELETONS", "Skeleton", "find_skeleton"]


@dataclass(frozen=True, kw_only=True)
class Skeleton:
    """A stream skeleton and how far it is checked.

    Parameters
    ----------
    name, summary : str
        As users call it; what it is.
    make_ports : callable
        Returns a new small block of it.
    bound_cycles : int
        In which something must move.
    depth_cycles : int
        Length of the runs from reset that are checked.
    count_bits : int
        Holds the beats inside.
    """

    name: str
    summary: str
    make_ports: Callable[[], Ports]
    bound_cycles: int
    depth_cycles: int
    count_bits: int

    def check(self, change: Callable[[Ports], Ports] = lambda ports: ports) -> StreamCheck:
        """Return the block with its assertions; ``change`` may put something between, as the tests' faults do."""
        return StreamCheck(change(self.make_ports()), bound_cycles=self.bound_cycles, count_bits=self.count_bits)


class DelayLine(wiring.Component):
    """A pipeline that computes nothing, with ``PipelineEnd`` behind it.

    Parameters
    ----------
    latency_cycles : int
        Of the pipeline.

    Members
    -------
    i, o : stream of 2 bits
        Beats.
    """

    def __init__(self, *, latency_cycles: int) -> None:
        self._latency_cycles = latency_cycles
        super().__init__({"i": In(stream.Signature(2)), "o": Out(stream.Signature(2))})

    def elaborate(self, platform: Any) -> Any:
        """Connect registers and the queue."""
        m = Module()
        cycles = self._latency_cycles
        m.submodules.end = end = PipelineEnd(2, latency_cycles=cycles)
        wiring.connect(m, end.output, wiring.flipped(self.o))
        m.d.comb += [
            self.i.ready.eq(end.room),
            end.taken.eq(self.i.valid & end.room),
            end.results.valid.eq(delay(m, end.taken, cycles, name="valid", reset_less=False)),
            end.results.payload.eq(delay(m, self.i.payload, cycles, name="payload")),
        ]
        return m


class _Identity(wiring.Component):
    """A lane that passes its number after one cycle."""

    def __init__(self) -> None:
        super().__init__({"argument": In(flow(unsigned(1))), "result": Out(flow(unsigned(1)))})

    def elaborate(self, platform: Any) -> Any:
        m = Module()
        m.d.sync += [self.result.payload.eq(self.argument.payload), self.result.valid.eq(self.argument.valid)]
        return m


@dataclass(frozen=True, kw_only=True)
class _Lanes:
    """What ``LaneBlock`` asks of a description."""

    lanes: int

    @property
    def input_format(self) -> FixedPoint:
        return FixedPoint.parse("u1f0,truncate,wrap")

    output_format = input_format


@dataclass(frozen=True, kw_only=True)
class _RowLimits(_Lanes):
    """What the row skeleton asks of a description."""

    max_beats: int


def _queue(depth: int) -> Ports:
    design = MemoryFifo(1, depth=depth)
    return Ports(
        design=design, source=design.i, sink=design.o, carried_in=design.i.payload, carried_out=design.o.payload
    )


def _delay_line() -> Ports:
    design = DelayLine(latency_cycles=1)
    return Ports(
        design=design, source=design.i, sink=design.o, carried_in=design.i.payload, carried_out=design.o.payload
    )


def _lanes(lanes: int, shared: int) -> Ports:
    """Return lanes that pass what is kept: a lane that is not kept gives 0, whatever came."""
    design = LaneBlock(_Lanes(lanes=lanes), make_pipeline=_Identity, pipeline_cycles=1, lanes_per_pipeline=shared)
    given, result = design.inputs.payload, design.results.payload
    kept = [number & given.keep[lane] for lane, number in enumerate(given.number)]
    return Ports(
        design=design,
        source=design.inputs,
        sink=design.results,
        carried_in=Cat(kept, given.keep, given.last),
        carried_out=Cat(list(result.result), result.keep, result.last),
    )


class _RowPart(wiring.Component):
    """A part of a row block that computes nothing."""

    def __init__(self, **ports: Any) -> None:
        super().__init__(ports)


class _Front(_RowPart):
    """Passes a beat at once: to the row buffer, and to the statistic."""

    def elaborate(self, platform: Any) -> Any:
        m = Module()
        for target in (self.words, self.powers):
            m.d.comb += [target.payload.eq(self.scores.payload), target.valid.eq(self.scores.valid)]
        return m


class _Statistic(_RowPart):
    """Has an entry one cycle after the last beat of a row: its first bit."""

    def elaborate(self, platform: Any) -> Any:
        m = Module()
        m.d.sync += [
            self.rows.payload.eq(self.powers.payload[0]),
            self.rows.valid.eq(self.powers.valid & self.powers.payload[2]),
        ]
        return m


class _Back(_RowPart):
    """Lets a buffered beat leave with the entry of its row, which goes with the last one."""

    def elaborate(self, platform: Any) -> Any:
        m = Module()
        moves = Signal()
        m.d.comb += [
            self.results.payload.eq(self.words.payload),
            self.results.valid.eq(self.words.valid & self.rows.valid),
            moves.eq(self.results.valid & self.results.ready),
            self.words.ready.eq(moves),
            self.rows.ready.eq(moves & self.words.payload[2]),
        ]
        return m


_BEAT_BITS = 3
"""A number of one bit, its keep, and last."""


class _Rows(BufferedRows):
    """The row skeleton with parts that compute nothing."""

    @staticmethod
    def stages_of(unit: Any) -> tuple[int, int, int]:
        return 0, 1, 0

    def _front(self) -> Any:
        return _Front(scores=In(flow(_BEAT_BITS)), words=Out(flow(_BEAT_BITS)), powers=Out(flow(_BEAT_BITS)))

    def _statistic(self) -> Any:
        return _Statistic(powers=In(flow(_BEAT_BITS)), rows=Out(flow(1)))

    def _back(self) -> Any:
        return _Back(
            words=In(stream.Signature(_BEAT_BITS)),
            rows=In(stream.Signature(1)),
            results=Out(stream.Signature(_BEAT_BITS)),
        )

    def _send(self, m: Any, target: Any, accept: Any, last: Any) -> None:
        beat = self.scores.payload
        m.d.comb += [target.payload.eq(Cat(beat.score[0], beat.keep, last)), target.valid.eq(accept)]


def _rows(most: int) -> Ports:
    design: Any = _Rows(_RowLimits(lanes=1, max_beats=most))
    given, result = Value.cast(design.scores.payload), Value.cast(design.weights.payload)
    return Ports(
        design=design,
        source=design.scores,
        sink=design.weights,
        carried_in=given,
        carried_out=result,
        row_end=design.scores.payload.last,
        row_beats=most,
    )


SKELETONS: Mapping[str, Skeleton] = {
    each.name: each
    for each in (
        Skeleton(
            name="queue",
            summary="MemoryFifo of 2 words: the queue in block memory with a registered output",
            make_ports=lambda: _queue(2),
            bound_cycles=4,
            depth_cycles=14,
            count_bits=3,
        ),
        Skeleton(
            name="odd-queue",
            summary="MemoryFifo of 3 words, whose addresses do not wrap by themselves",
            make_ports=lambda: _queue(3),
            bound_cycles=4,
            depth_cycles=14,
            count_bits=3,
        ),
        Skeleton(
            name="pipeline",
            summary="PipelineEnd behind a register: pipelines that never stall, and the places that let in",
            make_ports=_delay_line,
            bound_cycles=3,
            depth_cycles=12,
            count_bits=3,
        ),
        Skeleton(
            name="lanes",
            summary="LaneBlock of 2 lanes: activations, primitives",
            make_ports=lambda: _lanes(2, 1),
            bound_cycles=3,
            depth_cycles=12,
            count_bits=3,
        ),
        Skeleton(
            name="shared-lanes",
            summary="LaneBlock of 2 lanes that share a pipeline",
            make_ports=lambda: _lanes(2, 2),
            bound_cycles=5,
            depth_cycles=14,
            count_bits=3,
        ),
        Skeleton(
            name="rows",
            summary="BufferedRows of at most 2 beats: row buffer, row queue and the places that let in, as in softmax",
            make_ports=lambda: _rows(2),
            bound_cycles=8,
            depth_cycles=13,
            count_bits=4,
        ),
    )
}
"""All skeletons by name."""


def find_skeleton(name: str) -> Skeleton:
    """Return the skeleton called ``name``.

    Raises
    ------
    InputError
        There is none.
    """
    if name not in SKELETONS:
        raise InputError(
            f"skeleton must be a known stream skeleton, not {name!r}",
            hint=did_you_mean(name, SKELETONS),
            field=("skeleton",),
        )
    return SKELETONS[name]
