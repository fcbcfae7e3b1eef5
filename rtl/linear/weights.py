"""Two banks of weights: one is filled from the stream of weights while the other is read, a tile a cycle."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.block_unit import BlockUnit
from rtl.linear.counting import up_and_down
from rtl.linear.layouts import shape_layout, weight_signature

__all__ = ["WeightBanks"]


class WeightBanks(wiring.Component):
    """Loads the weights and biases of one layer after the other, row by row, and re-tiles them on the way.

    A layer's shape is taken when a bank is free; from the next cycle on one beat a cycle is written: ``out_features``
    rows of ``blocks`` beats, then two beats of biases for each word of outputs. ``loaded`` rises in the cycle after the
    last one. Each of the T rows of a tile has a memory of its own, so that rows come one by one and tiles leave whole.

    Parameters
    ----------
    unit : BlockUnit
        Tile, formats, size of a bank.

    Members
    -------
    shapes : In(stream of shape_layout)
        The next layer.
    beats : In(weight_signature)
        Its weights and biases.
    loaded : Out(1)
        A layer is complete whose last step was not taken.
    ended : In(1)
        A step is taken that is the last of its layer.
    released : In(1)
        The oldest bank is not read any more after this cycle.
    tile : In(range(weight_tiles)), bias : In(range)
        Which tile, and which word of biases, of the oldest bank is read; for biases by ``bias_bank``, as they are read
        later.
    tile_bank, bias_bank : In(1), Out(1)
        The bank that steps are taken from, for the delay beside them.
    weights : Out(tile x tile weights)
        The tile, one cycle later: first index the output, second the input.
    biases : Out(tile biases)
        The biases, one cycle later.
    written : Out(1)
        A beat is written.
    misaligned : Out(1)
        A beat is written whose ``last`` is not where the layer's dimensions say.
    """

    def __init__(self, unit: BlockUnit) -> None:
        self._unit = unit
        linear = unit.linear
        super().__init__(
            {
                "shapes": In(stream.Signature(shape_layout(unit))),
                "beats": In(weight_signature(unit)),
                "loaded": Out(1),
                "ended": In(1),
                "released": In(1),
                "tile": In(range(linear.weight_tiles)),
                "tile_bank": Out(1),
                "bias": In(range(linear.blocks(linear.max_features))),
                "bias_bank": In(1),
                "weights": Out(data.ArrayLayout(unsigned(linear.weight_format.width_bits * linear.tile), linear.tile)),
                "biases": Out(data.ArrayLayout(unsigned(linear.bias_bits), linear.tile)),
                "written": Out(1),
                "misaligned": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the writer, the memories, and the counts of banks."""
        m = Module()
        writing = self._write(m)
        self._memories(m, writing)
        held, complete, bank = Signal(range(3)), Signal(range(3)), Signal(name="read_bank")
        up_and_down(m, held, writing["taken"], self.released)
        up_and_down(m, complete, writing["finished"], self.ended)
        with m.If(self.ended):
            m.d.sync += bank.eq(~bank)
        m.d.comb += [self._free.eq(held != 2), self.loaded.eq(complete != 0), self.tile_bank.eq(bank)]
        return m

    def _write(self, m: Any) -> dict[str, Any]:
        """Build the writer's counters; return where each beat goes."""
        unit, shape = self._unit, self.shapes.payload
        tile = unit.linear.tile
        self._free = Signal(name="free")
        active, bank, biases, half = Signal(), Signal(name="write_bank", init=1), Signal(), Signal()
        lanes = Signal(tile)  # one-hot
        place, base = Signal(range(unit.linear.weight_tiles)), Signal(range(unit.linear.weight_tiles + 1))
        blocks, block = Signal(shape.blocks.shape()), Signal(shape.blocks.shape())
        rows, word = Signal(shape.out_features.shape()), Signal(range(unit.linear.blocks(unit.linear.max_features) + 1))
        taken, write, finished, row_ends = Signal(), Signal(), Signal(), Signal()
        bias_words = Signal(word.shape())
        m.d.comb += [
            self.shapes.ready.eq(~active & self._free),
            taken.eq(self.shapes.valid & self.shapes.ready),
            self.beats.ready.eq(active),
            write.eq(self.beats.valid & active),
            row_ends.eq(block == blocks - 1),
            finished.eq(write & biases & half & (word == bias_words - 1)),
            self.written.eq(write),
            self.misaligned.eq(write & (self.beats.payload.last != finished)),
            place.eq((base + block)[: len(place)]),
        ]
        with m.If(taken):
            m.d.sync += [
                *(active.eq(1), bank.eq(~bank), biases.eq(0), half.eq(0), lanes.eq(1), base.eq(0), block.eq(0)),
                *(word.eq(0), blocks.eq(shape.blocks), rows.eq(shape.out_features)),
                bias_words.eq((shape.out_features + (tile - 1))[tile.bit_length() - 1 :][: len(bias_words)]),
            ]
        with m.Elif(write & ~biases):
            m.d.sync += block.eq(Mux(row_ends, 0, (block + 1)[: len(block)]))
            with m.If(row_ends):
                m.d.sync += [rows.eq((rows - 1)[: len(rows)]), lanes.eq(lanes.rotate_left(1)), biases.eq(rows == 1)]
                with m.If(lanes[-1]):
                    m.d.sync += base.eq((base + blocks)[: len(base)])
        with m.Elif(write):
            m.d.sync += [half.eq(~half), active.eq(~finished)]
            with m.If(half):
                m.d.sync += word.eq((word + 1)[: len(word)])
        return {
            "taken": taken,
            "finished": finished,
            "bank": bank,
            "lanes": lanes,
            "tile": place,
            "word": word,
            "weight": write & ~biases,
            "low": write & biases & ~half,
            "high": write & biases & half,
        }

    def _memories(self, m: Any, writing: dict[str, Any]) -> None:
        """Build a memory for each row of a tile, and one for each half of the biases."""
        unit = self._unit
        linear = unit.linear
        numbers = Value.cast(self.beats.payload.numbers)
        words = linear.blocks(linear.max_features)
        for lane in range(linear.tile):
            data_out = self._memory(
                m,
                f"row_{lane}",
                linear.weight_tiles,
                write=(writing["bank"], writing["tile"], numbers, writing["weight"] & writing["lanes"][lane]),
                read=(self.tile_bank, self.tile),
            )
            m.d.comb += self.weights[lane].eq(data_out)
        width = linear.weight_format.width_bits
        halves = [
            self._memory(
                m,
                f"bias_{name}",
                words,
                write=(writing["bank"], writing["word"], numbers, writing[name]),
                read=(self.bias_bank, self.bias),
            )
            for name in ("low", "high")
        ]
        for lane in range(linear.tile):
            m.d.comb += self.biases[lane].eq(Cat(half[lane * width : (lane + 1) * width] for half in halves))

    @staticmethod
    def _memory(m: Any, name: str, size: int, *, write: Any, read: Any) -> Any:
        """Return the word of a bank that is read, of two banks in one memory."""
        bank, address, numbers, enable = write
        m.submodules[name] = storage = memory.Memory(shape=unsigned(len(numbers)), depth=2 * size, init=[])
        writer, reader = storage.write_port(), storage.read_port()
        places = range(2 * size)
        start = Const(size, places)
        m.d.comb += [
            writer.addr.eq((address + Mux(bank, start, 0))[: len(writer.addr)]),
            writer.data.eq(numbers),
            writer.en.eq(enable),
            reader.addr.eq((read[1] + Mux(read[0], start, 0))[: len(reader.addr)]),
            reader.en.eq(1),
        ]
        return reader.data
