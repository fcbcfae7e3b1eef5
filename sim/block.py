"""Runs programs on the block unit in compiled simulation, and compares them with golden model and cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accel.block_cycles import ProgramTimes, program_times
from accel.block_program import encode
from accel.block_unit import BlockUnit, Gate, LoadList, Operation, Store
from accel.errors import InputError
from rtl.block import BlockEngine, BlockPorts
from rtl.block.ports import beat_bytes
from rtl.emit import emit
from sim.golden.block import BlockData, GoldenBlock, run_block_program
from sim.golden.linear import Layer
from sim.streams import CompiledStreams, Streams, pack, unpack
from sim.toolchain import find_toolchain

__all__ = ["BlockRun", "block_streams", "compile_block", "run_block", "weight_beats"]

Codes = NDArray[np.int64]
PORTS = ("s_axis_job", "s_axis_x", "s_axis_w", "m_axis")


@dataclass(frozen=True, kw_only=True)
class BlockRun:
    """What a run showed beside what was predicted.

    Parameters
    ----------
    golden : GoldenBlock
        What the hardware must answer.
    times : ProgramTimes
        When.
    outputs : tuple of ndarray
        What it answered, as ``GoldenBlock.outputs``.
    bit_exact : bool
        They are equal, every ``tlast`` is where it must be, and no error was reported.
    cycles_model, cycles_rtl : int
        From accepting the first operation to the last beat, both counted.
    output_cycles_equal : bool
        Every beat left in the predicted cycle.
    actions_model, actions_rtl : dict of str to int
        Counts of the unit's actions.
    """

    golden: GoldenBlock
    times: ProgramTimes
    outputs: tuple[Codes, ...]
    bit_exact: bool
    cycles_model: int
    cycles_rtl: int
    output_cycles_equal: bool
    actions_model: dict[str, int]
    actions_rtl: dict[str, int]

    @property
    def right(self) -> bool:
        """Bits, cycles of every beat, and actions are those predicted."""
        return self.bit_exact and self.output_cycles_equal and self.actions_rtl == self.actions_model


def compile_block(unit: BlockUnit, folder: Path, cache: Path) -> CompiledStreams:
    """Emit the unit with counters into ``folder`` and compile it; raises as ``emit`` and ``CompiledStreams.build``."""
    emitted = emit(BlockPorts(BlockEngine(unit, counters=True)), "block", folder)
    return CompiledStreams.build(emitted.verilog, emitted.description, toolchain=find_toolchain(), cache=cache)


def weight_beats(unit: BlockUnit, layer: Layer) -> Codes:
    """Return the beats of a layer's weights and biases, ndarray[beats, tile], int64, in the order of the contract."""
    linear = unit.linear
    outputs, inputs = layer.weights.shape
    weights = np.zeros((outputs, linear.blocks(inputs) * linear.tile), np.int64)
    weights[:, :inputs] = layer.weights
    biases = np.zeros(linear.blocks(outputs) * linear.tile, np.int64)
    biases[:outputs] = layer.biases
    words = biases.reshape(-1, 1, linear.tile)
    width = linear.weight_format.width_bits
    halves = np.concatenate([words & ((1 << width) - 1), words >> width], axis=1)
    return np.concatenate([weights.reshape(-1, linear.tile), halves.reshape(-1, linear.tile)])


def _bytes(numbers: Sequence[Codes], element: object, width: int) -> NDArray[np.uint8]:
    """Return beats of numbers as bytes, each beat ``width`` bytes wide."""
    parts = [pack(each, element) for each in numbers]  # type: ignore[arg-type]
    whole = np.concatenate(parts) if parts else np.zeros((0, width), np.uint8)
    return np.pad(whole, ((0, 0), (0, width - whole.shape[1])))


def _ends(lengths: Sequence[int]) -> NDArray[np.bool_]:
    last = np.zeros(sum(lengths), bool)
    last[np.cumsum(lengths, dtype=np.int64) - 1] = True
    return last


def block_streams(unit: BlockUnit, program: Sequence[Operation], data: BlockData, golden: GoldenBlock) -> Streams:
    """Return the beats of all ports for a program."""
    linear = unit.linear
    width = beat_bytes(linear.tile, linear.feature_format)
    words = np.array([list(each.to_bytes(32, "little")) for each in encode(unit, program)], np.uint8)
    moved = [each for each in program if type(each).__name__ in ("Load", "LoadList")]
    given = []
    for each, numbers in zip(moved, data.features, strict=True):
        if isinstance(each, LoadList):
            entries = (numbers[:, 0] | numbers[:, 1] << 16).astype("<u4")
            beats = entries.view(np.uint8).reshape(-1, 4)
            given.append(np.pad(beats, ((0, 0), (0, width - 4))))
        else:
            given.append(_bytes([numbers], linear.feature_format, width))
    weights = [weight_beats(unit, each) for each in golden.used]
    weight_bytes = linear.tile * -(-linear.weight_format.width_bits // 8)
    return Streams(
        data={
            "s_axis_job": words,
            "s_axis_x": np.concatenate(given) if given else np.zeros((0, width), np.uint8),
            "s_axis_w": _bytes(weights, linear.weight_format, weight_bytes),
        },
        last={
            "s_axis_x": _ends([len(each) for each in given]),
            "s_axis_w": _ends([len(each) for each in weights]),
        },
        outputs=sum(map(len, golden.outputs)),
    )


def run_block(
    unit: BlockUnit,
    compiled: CompiledStreams,
    program: Sequence[Operation],
    data: BlockData,
    *,
    shares: Mapping[str, float] | None = None,
    seed: int = 1,
) -> BlockRun:
    """Run a program after a reset, the ports moving in ``shares`` of the cycles (see ``CompiledStreams.run``).

    Raises
    ------
    InputError
        The program or its data are wrong, or nothing leaves.
    SimulationError
        A port stalled or broke a rule.
    """
    golden = run_block_program(unit, program, data)
    if not golden.outputs:
        raise InputError("a program must have a Store or a Gate, so that its end is seen", hint="add a Store")
    compiled.reset()
    seen = compiled.run(block_streams(unit, program, data, golden), shares=shares, seed=seed)
    kinds = [type(each) for each in program if isinstance(each, Store | Gate)]
    ends = np.cumsum([len(each) for each in golden.outputs])
    parts = np.split(seen.data, ends[:-1])
    outputs = tuple(
        part[:, :4].copy().view("<u2").astype(np.int64) if kind is Gate else _words(unit, part)
        for kind, part in zip(kinds, parts, strict=True)
    )
    exact = all(np.array_equal(want, got) for want, got in zip(golden.outputs, outputs, strict=True))
    exact &= np.flatnonzero(seen.last).tolist() == (ends - 1).tolist()
    exact &= not (seen.status["refused"] or seen.status["misaligned"])
    times = program_times(unit, program, [each.chosen for each in golden.routings])
    cycles = (seen.cycles_of["m_axis"] - int(seen.cycles_of["s_axis_job"][0])).tolist()
    return BlockRun(
        golden=golden,
        times=times,
        outputs=outputs,
        bit_exact=bool(exact),
        cycles_model=times.output_cycles[-1] + 1,
        cycles_rtl=int(cycles[-1]) + 1,
        output_cycles_equal=cycles == list(times.output_cycles),
        actions_model=golden.actions,
        actions_rtl={name: int(seen.status[f"count_{name}"]) for name in unit.action_names},
    )


def _words(unit: BlockUnit, beats: NDArray[np.uint8]) -> Codes:
    linear = unit.linear
    size = linear.tile * -(-linear.feature_format.width_bits // 8)
    return unpack(np.ascontiguousarray(beats[:, :size]), linear.feature_format)
