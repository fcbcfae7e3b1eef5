"""The stream rules are proved for the skeletons, and a fault of each kind is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

import rtl.elastic
from sim.formal import RULES, SKELETONS, check_design, find_skeleton
from sim.formal.checker import Ports


class Fault(wiring.Component):
    """Stands behind a queue of one bit, and does one thing wrong, once or now and then."""

    def __init__(self, inner: Any, kind: str) -> None:
        self._inner, self._kind = inner, kind
        super().__init__({"i": In(stream.Signature(1)), "o": Out(stream.Signature(1))})

    def elaborate(self, platform: Any) -> Any:
        m = Module()
        m.submodules.inner = inner = self._inner
        wiring.connect(m, wiring.flipped(self.i), inner.i)
        m.d.comb += [self.o.valid.eq(inner.o.valid), self.o.payload.eq(inner.o.payload), inner.o.ready.eq(self.o.ready)]
        waited, count = Signal(), Signal(2)
        taken = Signal()
        m.d.comb += taken.eq(inner.o.valid & inner.o.ready)
        m.d.sync += waited.eq(self.o.valid & ~self.o.ready)
        m.d.sync += count.eq(Mux(taken & (count != 3), count + 1, count))
        second = (count == 1) & inner.o.valid
        if self._kind == "valid-holds":
            m.d.comb += self.o.valid.eq(inner.o.valid & ~waited)
        elif self._kind == "payload-stable":
            m.d.comb += self.o.payload.eq(inner.o.payload ^ (waited & ~self.o.ready))
        elif self._kind == "nothing-lost":  # the second beat is swallowed
            with m.If(second):
                m.d.comb += [self.o.valid.eq(0), inner.o.ready.eq(1)]
        elif self._kind == "nothing-invented":  # the second beat leaves twice
            again = Signal()
            with m.If(second & ~again):
                m.d.comb += inner.o.ready.eq(0)
                m.d.sync += again.eq(self.o.ready)
        elif self._kind == "output-moves":
            with m.If(count == 2):
                m.d.comb += [self.o.valid.eq(0), inner.o.ready.eq(0)]
        else:
            with m.If(count == 2):
                m.d.comb += [self.i.ready.eq(0), inner.i.valid.eq(0)]
        return m


def behind(kind: str) -> Callable[[Ports], Ports]:
    """Return what puts a fault behind a block."""

    def change(ports: Ports) -> Ports:
        fault = Fault(ports.design, kind)
        return replace(
            ports,
            design=fault,
            source=fault.i,
            sink=fault.o,
            carried_in=fault.i.payload,
            carried_out=fault.o.payload,
        )

    return change


@pytest.mark.parametrize("name", SKELETONS)
def test_no_run_from_reset_breaks_a_rule(name: str) -> None:
    skeleton = find_skeleton(name)
    verdict = check_design(skeleton.check(), depth_cycles=skeleton.depth_cycles)
    assert verdict.failed_rule is None
    assert verdict.depth_cycles > skeleton.bound_cycles + 1


BREAKS = {
    "valid-holds": {"valid-holds"},
    "payload-stable": {"payload-stable"},
    "nothing-lost": {"nothing-lost", "output-moves"},
    "nothing-invented": {"nothing-lost", "nothing-invented"},
    "output-moves": {"output-moves"},
    "input-moves": {"input-moves"},
}
"""Fault to the rules that may name it: a beat that is swallowed is also one that never leaves."""


@pytest.mark.parametrize("kind", RULES)
def test_a_fault_of_each_kind_is_found_and_shown(kind: str, tmp_path: Path) -> None:
    skeleton = find_skeleton("queue")
    trace = tmp_path / "deep" / "trace.vcd"
    verdict = check_design(skeleton.check(behind(kind)), depth_cycles=skeleton.depth_cycles, trace=trace)
    assert verdict.failed_rule in BREAKS[kind]
    assert "beats_inside" in trace.read_text()


def test_a_queue_with_one_place_too_few_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rtl.elastic.fifo.SyncFIFO
    monkeypatch.setattr(rtl.elastic.fifo, "SyncFIFO", lambda *, width, depth: whole(width=width, depth=depth - 1))
    skeleton = find_skeleton("pipeline")
    verdict = check_design(skeleton.check(), depth_cycles=skeleton.depth_cycles)
    assert verdict.failed_rule in {"nothing-lost", "output-moves"}


def test_the_command_shows_the_proof_and_names_a_wrong_skeleton(einrtl: Callable[..., Any]) -> None:
    done = einrtl("formal", "queue", "--depth", 6, "--json")
    assert done.code == 0
    (shown,) = json.loads(done.out)["skeletons"]
    assert (shown["name"], shown["depth_cycles"], shown["failed_rule"]) == ("queue", 6, None)
    done = einrtl("formal", "queues")
    assert (done.code, done.err) == (
        2,
        "error: skeleton must be a known stream skeleton, not 'queues'; did you mean 'queue'?\n",
    )
    done = einrtl("formal", "--depth", 0)
    assert (done.code, done.err) == (2, "error: --depth must be from 1 to 200, not 0; use 1\n")


def test_a_missing_solver_ends_with_3_and_says_how_to_get_it(
    einrtl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.formal.prove._PACKAGES", ("z3-solver-that-is-not-there",))
    done = einrtl("formal", "queue")
    assert done.code == 3
    assert "the package z3-solver-that-is-not-there must be installed for formal checks" in done.err
    assert "pip install 'einrtl[formal]'" in done.err
