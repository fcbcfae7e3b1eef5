"""Energy of a block: toggles of its cells under a stimulus, priced by the Liberty library."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.errors import SimulationError
from rtl.synth.asic import MEMORY_CELL, CellNetlist
from rtl.synth.liberty import Liberty
from sim.power.gates import GateSimulator
from sim.power.stimulus import STREAMS, Codes, row_beats, stream_ports

__all__ = ["SLEW_NS", "CellEnergy", "Measurement", "Run", "cell_energy", "run_netlist"]

SLEW_NS = 0.03
"""Slew at which the energy inside cells is read: that of a lightly loaded gate of the library."""

RESET_CYCLES = 8
PATIENCE_CYCLES = 2000
_ALL = ~np.uint64(0)


@dataclass(frozen=True, kw_only=True)
class CellEnergy:
    """Energy of the cells in one clock cycle of one stream, in fJ, mean over a window.

    Parameters
    ----------
    switching_fj : float
        Loading the input pins that a net drives; wires are left out.
    internal_fj : float
        Inside the cells, at transitions of their outputs and, for registers, of their data.
    clock_fj : float
        At the clock pins of the registers, both edges; the tree that drives them is left out.
    """

    switching_fj: float
    internal_fj: float
    clock_fj: float

    @property
    def total_fj(self) -> float:
        """All of it."""
        return self.switching_fj + self.internal_fj + self.clock_fj


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a window of a run cost.

    Parameters
    ----------
    unit_delay : bool
        Whether glitches were simulated.
    cycles, numbers : int
        Of one stream: clock cycles, and numbers accepted in them.
    energy : CellEnergy
        Mean energy of a cycle.
    toggles_per_cycle : float
        Of all nets together, in one stream.
    memory_reads, memory_writes : mapping of int to float
        Accesses in a cycle to memories left whole, by the bits of a word.
    """

    unit_delay: bool
    cycles: int
    numbers: int
    energy: CellEnergy
    toggles_per_cycle: float
    memory_reads: Mapping[int, float]
    memory_writes: Mapping[int, float]

    @property
    def per_number_pj(self) -> float:
        """Energy of the cells for one number, pJ; memories left whole are not in it."""
        return 1e-3 * self.energy.total_fj * self.cycles / self.numbers


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of the netlist.

    Parameters
    ----------
    given, results : ndarray[beats, streams, lanes], int64
        Codes accepted at the input, and codes delivered.
    last : ndarray[beats], bool
        Input beats that ended a row.
    zero_delay, unit_delay : Measurement
        Of one window each.
    """

    given: Codes
    results: Codes
    last: NDArray[np.bool_]
    zero_delay: Measurement
    unit_delay: Measurement


def cell_energy(netlist: CellNetlist, library: Liberty, simulator: GateSimulator) -> CellEnergy:
    """Return the mean energy of a cycle for the toggles that ``simulator`` has counted."""
    load = np.zeros(len(simulator.state))
    for instance in netlist.instances:
        if instance["type"] != MEMORY_CELL:
            for pin, each in library.cell(instance["type"]).pins.items():
                if each.direction == "input" and pin in instance["connections"]:
                    load[simulator.nets(instance["connections"][pin])] += each.capacitance_ff
    rate = simulator.toggles / (simulator.cycles * STREAMS)
    half_square = 0.5 * library.voltage**2
    internal = clock = 0.0
    remembered: dict[tuple[str, str, float], float] = {}

    def inside(kind: str, pin: str, net_load: float) -> float:
        key = (kind, pin, round(net_load, 2))
        if key not in remembered:
            remembered[key] = library.cell(kind).pins[pin].transition_fj(SLEW_NS, net_load)
        return remembered[key]

    for instance in netlist.instances:
        kind = instance["type"]
        if kind == MEMORY_CELL:
            continue
        for pin, each in library.cell(kind).pins.items():
            if each.clock:
                clock += 2 * (inside(kind, pin, 0.0) + half_square * each.capacitance_ff)
            elif pin in instance["connections"]:
                net = simulator.nets(instance["connections"][pin])[0]
                internal += rate[net] * inside(kind, pin, load[net] if each.direction == "output" else 0.0)
    # A toggle is half a charge and discharge; the clock nets, which the simulator does not toggle, are priced above.
    switching = float((half_square * load * rate).sum())
    return CellEnergy(switching_fj=switching, internal_fj=float(internal), clock_fj=clock)


def run_netlist(
    netlist: CellNetlist,
    library: Liberty,
    description: Mapping[str, Any],
    codes: Codes,
    *,
    zero_delay_beats: int,
    unit_delay_beats: int,
) -> Run:
    """Stream ``codes`` through the netlist at full rate, and price two windows of it.

    The first row and the latency warm the block up; then come a window with zero delay and one with unit delay.

    Parameters
    ----------
    netlist, library
        The block in cells.
    description : mapping
        Its sidecar, with AXI4-Stream ports.
    codes : ndarray[beats, streams, lanes], int64
        What to stream; as many beats as the warm-up and both windows take, or more.
    zero_delay_beats, unit_delay_beats : int
        Beats accepted in each window.

    Raises
    ------
    InputError
        The block has other ports.
    SimulationError
        The block stops moving, or its streams fall out of step.
    """
    bench = _Bench(netlist, library, description, codes)
    warm = row_beats(description) + int(description["latency_cycles"])
    bench.reset()
    bench.stream(warm, unit_delay=False)
    zero = bench.measure(zero_delay_beats, unit_delay=False)
    unit = bench.measure(unit_delay_beats, unit_delay=True)
    return Run(
        given=codes[: bench.accepted],
        results=np.array(bench.results),
        last=bench.last[: bench.accepted],
        zero_delay=zero,
        unit_delay=unit,
    )


class _Bench:
    """Drives the ports of a netlist: always offers, always takes."""

    def __init__(self, netlist: CellNetlist, library: Liberty, description: Mapping[str, Any], codes: Codes) -> None:
        self._netlist, self._library = netlist, library
        self._simulator = GateSimulator(netlist, library)
        self._source, self._sink = stream_ports(description)
        self._codes = codes
        beats = row_beats(description)
        self.last = np.arange(len(codes)) % beats == beats - 1
        self.accepted = 0
        self.results: list[Codes] = []

    def reset(self) -> None:
        offered, keep = np.zeros(1, np.uint64), len(self._simulator.read("s_axis_tkeep"))
        start = {
            "aresetn": offered,
            "s_axis_tvalid": offered,
            "s_axis_tkeep": np.full(keep, _ALL),
            "m_axis_tready": np.full(1, _ALL),
        }
        for _ in range(RESET_CYCLES):
            self._simulator.cycle(start)
        self._simulator.cycle({"aresetn": np.full(1, _ALL)})

    def stream(self, beats: int, *, unit_delay: bool) -> None:
        """Run until ``beats`` more beats are accepted."""
        goal, waited = self.accepted + beats, 0
        while self.accepted < goal:
            self._simulator.cycle(
                {
                    "s_axis_tvalid": np.full(1, _ALL),
                    "s_axis_tdata": self._source.pack(self._codes[self.accepted]),
                    "s_axis_tlast": np.full(1, _ALL if self.last[self.accepted] else np.uint64(0)),
                },
                unit_delay=unit_delay,
            )
            taken = self._moves("s_axis_tready")
            self.accepted += taken
            waited = 0 if taken else waited + 1
            if self._moves("m_axis_tvalid"):
                self.results.append(self._sink.unpack(self._simulator.read("m_axis_tdata")))
            if waited > PATIENCE_CYCLES:
                raise SimulationError(
                    f"port s_axis did not move for {PATIENCE_CYCLES} cycles, after {self.accepted} beats"
                )

    def _moves(self, port: str) -> bool:
        word = self._simulator.read(port)[0]
        if word not in (0, _ALL):
            raise SimulationError(f"port {port} must not depend on the numbers, but differs between streams")
        return bool(word)

    def measure(self, beats: int, *, unit_delay: bool) -> Measurement:
        simulator = self._simulator
        simulator.reset_counts()
        self.stream(beats, unit_delay=unit_delay)
        events = STREAMS * simulator.cycles
        reads: dict[int, float] = defaultdict(float)
        writes: dict[int, float] = defaultdict(float)
        for macro in simulator.macros:
            reads[macro.width] += macro.read_count / events
            writes[macro.width] += macro.write_count / events
        return Measurement(
            unit_delay=unit_delay,
            cycles=simulator.cycles,
            numbers=beats * self._source.lanes,
            energy=cell_energy(self._netlist, self._library, simulator),
            toggles_per_cycle=float(simulator.toggles.sum()) / events,
            memory_reads=dict(reads),
            memory_writes=dict(writes),
        )
