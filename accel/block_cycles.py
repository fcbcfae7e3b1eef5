"""The cycles of the block unit: when each operation begins and ends, and when its beats leave, if no port waits.

Everything is counted from the cycle that accepts the first operation (cycle 0); operations, features and weights are
always there, and outputs are taken at once. The recursion goes from operation to operation; within one, all is closed:

* An operation is seen 3 cycles after it was accepted, or in the cycle after the one before it was taken.
* ``Load`` and ``LoadList`` move one beat a cycle from the next cycle on, and so does ``Store``, whose first beat leaves
  3 cycles after it begins; the next operation may begin once the last word is read.
* The loader takes the weights of a layer when the layer was accepted, the ones before it are loaded, and
  ``bank_cycles`` have passed since the last step of the layer two before; then ``load_beats`` cycles follow.
* The first step of a linear layer is taken in the latest of: ``fill_cycles`` after the layer was seen; the cycle after
  the last step of the layer before; the cycle after its last weight came; and, by ``after``, the cycle after the last
  write of all before, or after the first row of the layer before was written. Its ``rows * row_cycles`` steps follow
  without a gap, but row i of a layer that comes after ``rows`` waits for row i.
* Everything else begins when all is written that was before, and runs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from accel.block_program import expert_layers
from accel.block_unit import (
    MAX_OPERATIONS,
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
from accel.reordered_cycles import job_times
from accel.reordered_schedule import AttentionJob

__all__ = ["Chosen", "OperationTimes", "ProgramTimes", "layer_times", "program_times"]

Chosen = Sequence[tuple[int, int]]
"""What a gate chose: experts in the order of their first token, and how many tokens each has."""

OPERATION_CYCLES = 3
"""Cycles from accepting an operation to its being seen."""
READ_CYCLES = 3
"""Cycles from the begin of a read to its first word."""
HEAD_CYCLES = 2
"""Cycles of a head before its settings are accepted, and after its last result."""


@dataclass(frozen=True, kw_only=True)
class OperationTimes:
    """Cycles of one operation.

    Parameters
    ----------
    begin_cycle : int
        When it is seen and begins, or is given to the linear unit.
    first_step_cycle, last_step_cycle : int
        Of a linear layer, or of the layers of all experts; -1 for all else.
    end_cycle : int
        When its last word is written, or read.
    first_output_cycle, output_beats : int
        Beats that leave, one a cycle; -1 and 0 if none do.
    """

    begin_cycle: int
    end_cycle: int
    first_step_cycle: int = -1
    last_step_cycle: int = -1
    first_output_cycle: int = -1
    output_beats: int = 0


@dataclass(frozen=True, kw_only=True)
class ProgramTimes:
    """Cycles of a program.

    Parameters
    ----------
    operations : tuple of OperationTimes
        One for each operation.
    """

    operations: tuple[OperationTimes, ...]

    @property
    def output_cycles(self) -> tuple[int, ...]:
        """Cycle of each beat that leaves."""
        return tuple(each.first_output_cycle + beat for each in self.operations for beat in range(each.output_beats))

    @property
    def total_cycles(self) -> int:
        """Cycles from accepting the first operation to the last beat or the last write, both counted."""
        return 1 + max([*self.output_cycles[-1:], *(each.end_cycle for each in self.operations)])

    @property
    def step_cycles(self) -> int:
        """Cycles from the first step of a linear layer to the last, both counted; 0 without one."""
        steps = [each for each in self.operations if each.first_step_cycle >= 0]
        return steps[-1].last_step_cycle - steps[0].first_step_cycle + 1 if steps else 0


@dataclass(kw_only=True)
class _State:
    """Where the recursion stands.

    ``seen`` is the first cycle in which the next operation may be seen, ``idle`` the first in which nothing is in
    flight, ``loader`` and ``gated`` the first in which the loader may take a layer, behind the one before and behind a
    gate; ``last_steps`` are those of all layers so far.
    """

    unit: BlockUnit
    seen: int = 0
    idle: int = 0
    loader: int = 0
    last_steps: list[int] = field(default_factory=list)
    gated: int = 0
    last_write: int = -1
    first_row_write: int = -1

    def layer(self, each: Linear, *, seen: int, shape: int) -> tuple[int, int]:
        """Take a layer whose dimensions the loader may see from ``shape`` on; return its first and last step."""
        linear = self.unit.linear
        load = linear.load_beats(each.in_features, each.out_features)
        taken = max(shape, self.gated, self.loader)
        if len(self.last_steps) > 1:
            taken = max(taken, self.last_steps[-2] + linear.bank_cycles)
        self.loader = taken + load + 1
        cycles = linear.row_cycles(each.in_features, each.out_features)
        first = max(seen + linear.fill_cycles, self.loader)
        if self.last_steps:
            first = max(first, self.last_steps[-1] + 1)
        if each.after == "all":
            first = max(first, self.last_write + 1)
        elif each.after == "rows":
            first = max(first, self.first_row_write + 1)
        last = first + each.rows * cycles - 1
        if each.after == "rows":
            last = max(last, self.last_write + cycles)
        self.last_steps.append(last)
        self.last_write = last + linear.latency_cycles
        self.first_row_write = first + cycles - 1 + linear.latency_cycles
        self.idle = self.last_write + 1
        return first, last


def program_times(unit: BlockUnit, program: Sequence[Operation], chosen: Sequence[Chosen] = ()) -> ProgramTimes:
    """Return the times of a program.

    Parameters
    ----------
    unit : BlockUnit
        The parameters.
    program : sequence of Operation
        At most ``MAX_OPERATIONS``: more would wait at the port.
    chosen : sequence of Chosen
        What each gate of the program chooses, which depends on the data.

    Raises
    ------
    InputError
        The program is too long, or ``chosen`` has not one entry for each gate.
    """
    gates = sum(isinstance(each, Gate) for each in program)
    if not 1 <= len(program) <= MAX_OPERATIONS:
        raise InputError(
            f"a program with times must have 1 to {MAX_OPERATIONS} operations, not {len(program)}",
            hint="split it: each part counts from its own first operation",
        )
    if len(chosen) != gates:
        raise InputError(
            f"chosen must have one entry for each of the {gates} gate(s), not {len(chosen)}",
            hint="take them from the golden model",
        )
    state, choices = _State(unit=unit), iter(chosen)
    return ProgramTimes(operations=tuple(_walk(state, program, choices)))


def layer_times(unit: BlockUnit, layers: Sequence[Linear], *, ahead_cycles: int = 0) -> tuple[OperationTimes, ...]:
    """Return the times of linear layers that an idle unit gets one a cycle, the first in cycle 0, as many as may be.

    The loader sees the dimensions of each ``ahead_cycles`` before. ``Experts`` gives its layers like this, with 0.
    """
    state, found = _State(unit=unit, loader=-ahead_cycles, gated=-ahead_cycles), []
    for place, layer in enumerate(layers):
        first, last = state.layer(layer, seen=place, shape=place - ahead_cycles)
        found.append(
            OperationTimes(begin_cycle=place, first_step_cycle=first, last_step_cycle=last, end_cycle=state.last_write)
        )
    return tuple(found)


def _walk(state: _State, program: Sequence[Operation], choices: Iterator[Chosen]) -> Iterator[OperationTimes]:
    current: Chosen = ()
    for accepted, each in enumerate(program):
        seen = max(accepted + OPERATION_CYCLES, state.seen)
        if isinstance(each, Linear):
            first, last = state.layer(each, seen=seen, shape=accepted + 1)
            state.seen = seen + 1
            yield OperationTimes(
                begin_cycle=seen, first_step_cycle=first, last_step_cycle=last, end_cycle=state.last_write
            )
            continue
        begin = max(seen, state.idle)
        if isinstance(each, Gate):
            current = next(choices)
        if isinstance(each, Experts):
            yield _experts(state, each, current, begin, accepted)
            continue
        times = _alone(state.unit, each, begin, current)
        state.seen = state.idle = times.end_cycle + 1
        if isinstance(each, Gate):
            state.gated = times.end_cycle + 2
        yield times


def _experts(state: _State, each: Experts, chosen: Chosen, begin: int, accepted: int) -> OperationTimes:
    """Give both layers of each expert that has work to the linear unit, one a cycle."""
    first = -1
    for place, (expert, tokens) in enumerate(chosen):
        for half, layer in enumerate(expert_layers(each, expert, tokens, first=place == 0)):
            start, last = state.layer(layer, seen=begin + 1 + 2 * place + half, shape=accepted + 1)
            first = start if first < 0 else first
    state.seen = begin + 1 + 2 * len(chosen)
    return OperationTimes(begin_cycle=begin, first_step_cycle=first, last_step_cycle=last, end_cycle=state.last_write)


def _alone(unit: BlockUnit, each: Operation, begin: int, chosen: Chosen) -> OperationTimes:
    """Return the times of an operation that runs alone."""
    if isinstance(each, Load):
        return OperationTimes(begin_cycle=begin, end_cycle=begin + each.words)
    if isinstance(each, LoadList):
        return OperationTimes(begin_cycle=begin, end_cycle=begin + each.entries)
    if isinstance(each, Store):
        return OperationTimes(
            begin_cycle=begin,
            end_cycle=begin + each.words,
            first_output_cycle=begin + READ_CYCLES,
            output_beats=each.words,
        )
    if isinstance(each, Normalise):
        return OperationTimes(begin_cycle=begin, end_cycle=begin + _norm_cycles(unit, each))
    if isinstance(each, Attend):
        return OperationTimes(begin_cycle=begin, end_cycle=begin + each.heads * head_cycles(unit, each.rows))
    assert isinstance(each, Gate)
    return _gate(unit, each, begin, chosen)


def _norm_cycles(unit: BlockUnit, each: Normalise) -> int:
    """Return the cycles from beginning a norm to its last write: the read, a row, the unit, and all rows."""
    if unit.norm is None:
        raise InputError("a program with a norm needs a unit with one", hint="give norm")
    blocks = unit.linear.blocks(each.features)
    return READ_CYCLES + blocks - 1 + unit.norm.latency_cycles + each.rows * blocks - 1


def head_cycles(unit: BlockUnit, rows: int) -> int:
    """Return the cycles of one head: its settings and operands come from the memory, its outputs go there."""
    if unit.attention is None:
        raise InputError("a program with attention needs a unit with one", hint="give attention")
    times = job_times(unit.attention, [AttentionJob(queries=rows, keys=rows)])[0]
    return HEAD_CYCLES + times.last_output_cycle


def _gate(unit: BlockUnit, each: Gate, begin: int, chosen: Chosen) -> OperationTimes:
    """Return the times of a gate: a logit a cycle, then the lists that are not empty, one a cycle."""
    if unit.gate is None:
        raise InputError("a program with a gate needs a unit with one", hint="give gate")
    last_logit = begin + READ_CYCLES + each.rows * unit.gate.experts - 1
    last_entry = last_logit + unit.gate.latency_cycles + unit.gate.top_k - 1
    return OperationTimes(
        begin_cycle=begin,
        end_cycle=last_entry + len(chosen),
        first_output_cycle=last_entry + 1,
        output_beats=len(chosen),
    )
