"""Simulates a netlist of standard cells for 64 independent streams at once, and counts how often each net toggles.

A word holds one bit of each stream. With zero delay every cell switches once a cycle, in the order of its level: no
glitch shows, so the count is a lower bound. With unit delay every cell takes one step, and all inputs of a cycle arrive
in the first step: paths of different length make glitches, more of them than real delays and slow edges let through.
"""

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
from sim.power.boolean import Function, Words, compile_function
from sim.power.memory import Macro

__all__ = ["GateSimulator"]

Nets = NDArray[np.int64]
_Gate = tuple[str, str, Nets, int]
"""Kind of cell, output pin, nets at its inputs, net at the output."""

ZERO, ONE = 0, 1
MAX_STEPS = 4096


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Outputs of cells of one kind that may switch together: ``inputs`` is ndarray[pins, cells]."""

    function: Function
    inputs: Nets
    outputs: Nets


class GateSimulator:
    """A netlist at work.

    Parameters
    ----------
    netlist : CellNetlist
        The design; its registers and memories start with zeros.
    library : Liberty
        Its cells.

    Raises
    ------
    SimulationError
        Cells feed back into themselves without a register, or a cell or memory is of a kind that is not modelled.
    """

    def __init__(self, netlist: CellNetlist, library: Liberty) -> None:
        self._numbers: dict[int | str, int] = {"0": ZERO, "1": ONE, "x": ZERO}
        self._ports = {name: self.nets(port["bits"]) for name, port in netlist.ports.items()}
        gates: list[_Gate] = []
        taken, shown, inverted = [], [], []
        self.macros: list[Macro] = []
        for instance in netlist.instances:
            pins = {pin: self.nets(bits) for pin, bits in instance["connections"].items()}
            if instance["type"] == MEMORY_CELL:
                self.macros.append(Macro(instance["parameters"], pins))
                continue
            cell = library.cell(instance["type"])
            inputs = [pin for pin, each in cell.pins.items() if each.direction == "input"]
            for pin, each in cell.pins.items():
                if each.direction != "output" or pin not in pins:
                    continue
                if not cell.state:
                    gates.append((instance["type"], pin, np.concatenate([pins[name] for name in inputs]), pins[pin][0]))
                elif cell.next_state in pins and each.function in (cell.state, cell.inverted_state):
                    taken.append(pins[cell.next_state][0])
                    shown.append(pins[pin][0])
                    inverted.append(each.function == cell.inverted_state)
                else:
                    raise SimulationError(
                        f"cell {instance['type']} must be a plain flip-flop to be simulated, but is not"
                    )
        self._taken, self._shown = np.array(taken, np.int64), np.array(shown, np.int64)
        self._inverted = np.where(inverted, ~np.uint64(0), np.uint64(0)) if inverted else np.zeros(0, np.uint64)
        self._by_level = _grouped(gates, library, _levels(gates))
        self._by_kind = _grouped(gates, library, [0] * len(gates))
        self.state: Words = np.zeros(len(self._numbers), np.uint64)
        self.state[ONE] = ~np.uint64(0)
        self.toggles = np.zeros(len(self.state), np.int64)
        self.cycles = 0
        self._next: Words = self._inverted.copy()

    def nets(self, bits: Any) -> Nets:
        """Return the nets of ``bits`` as yosys writes them."""
        return np.array([self._numbers.setdefault(bit, len(self._numbers) - 1) for bit in bits], np.int64)

    def reset_counts(self) -> None:
        """Start counting toggles, cycles and accesses from zero."""
        self.toggles[:] = 0
        self.cycles = 0
        for macro in self.macros:
            macro.read_count = macro.write_count = 0

    def cycle(self, inputs: Mapping[str, Words], *, unit_delay: bool = False) -> None:
        """Run one clock cycle: registers take their inputs, ports take ``inputs``, and the logic settles.

        Parameters
        ----------
        inputs : mapping of str to ndarray[bits], uint64
            The input ports that change; the others keep their words.
        unit_delay : bool
            Whether each cell takes one step of delay, so that glitches show.

        Raises
        ------
        SimulationError
            The logic does not settle.
        """
        self._set(self._shown, self._next)
        for macro in self.macros:
            self._set(macro.outputs.ravel(), macro.data.ravel())
        for name, words in inputs.items():
            self._set(self._ports[name], words)
        if unit_delay:
            self._settle()
        else:
            for group in self._by_level:
                self._set(group.outputs, group.function(list(self.state[group.inputs])))
        self._next = self.state[self._taken] ^ self._inverted
        for macro in self.macros:
            macro.clock(self.state)
        self.cycles += 1

    def read(self, port: str) -> Words:
        """Return the words at ``port``; ndarray[bits], uint64."""
        return self.state[self._ports[port]]

    def _set(self, nets: Nets, words: Words) -> None:
        self.toggles[nets] += np.bitwise_count(self.state[nets] ^ words)
        self.state[nets] = words

    def _settle(self) -> None:
        for _ in range(MAX_STEPS):
            found = [group.function(list(self.state[group.inputs])) for group in self._by_kind]
            same = True
            for group, words in zip(self._by_kind, found, strict=True):
                if not np.array_equal(self.state[group.outputs], words):
                    same = False
                    self._set(group.outputs, words)
            if same:
                return
        raise SimulationError(f"the logic must settle within {MAX_STEPS} steps, but does not")


def _grouped(gates: list[_Gate], library: Liberty, levels: list[int]) -> list[_Group]:
    """Return the gates grouped by level, then by kind."""
    members: dict[tuple[int, str, str], list[_Gate]] = defaultdict(list)
    for gate, level in zip(gates, levels, strict=True):
        members[level, gate[0], gate[1]].append(gate)
    groups = []
    for (_, kind, pin), each in sorted(members.items(), key=lambda item: item[0]):
        pins = library.cell(kind).pins
        names = [name for name, port in pins.items() if port.direction == "input"]
        groups.append(
            _Group(
                function=compile_function(pins[pin].function, names),
                inputs=np.array([gate[2] for gate in each], np.int64).reshape(len(each), len(names)).T,
                outputs=np.array([gate[3] for gate in each], np.int64),
            )
        )
    return groups


def _levels(gates: list[_Gate]) -> list[int]:
    """Return the level of each gate: one above the highest gate that feeds it."""
    driver = {output: index for index, (_, _, _, output) in enumerate(gates)}
    feeds: dict[int, list[int]] = defaultdict(list)
    waiting = [0] * len(gates)
    for index, (_, _, inputs, _) in enumerate(gates):
        for net in {int(net) for net in inputs} & driver.keys():
            feeds[driver[net]].append(index)
            waiting[index] += 1
    levels = [0] * len(gates)
    ready = [index for index, count in enumerate(waiting) if not count]
    for index in ready:  # grows while it is read
        for after in feeds[index]:
            levels[after] = max(levels[after], levels[index] + 1)
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    if len(ready) < len(gates):
        raise SimulationError(f"logic must not feed back into itself, but {len(gates) - len(ready)} cells do")
    return levels
