"""The block unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.block_unit import BLOCK_ACTIONS, KINDS, BlockUnit
from rtl.arith import population
from rtl.attention.reordered import ReorderedAttention
from rtl.block.contract import block_contract
from rtl.block.move import USERS, Places, Reader, region_layout
from rtl.block.program import Program, operation_layout
from rtl.block.workers import ExpertJobs, Heads
from rtl.contract import Contract
from rtl.linear import LinearCore
from rtl.linear.counting import up_and_down
from rtl.linear.layouts import beat_signature, job_layout, list_layout, weight_signature
from rtl.moe import Gate
from rtl.norm import Norm

__all__ = ["COUNTER_BITS", "BlockEngine", "block_contract"]

COUNTER_BITS = 48

_STATUS = {
    "refused": "an operation was beyond the unit's parts or sizes; it was dropped; stays high until reset",
    "misaligned": "the last beat of features or weights was not where the operation says; stays high until reset",
}


class BlockEngine(wiring.Component):
    """A token memory, the unified linear unit, and what else a transformer block needs, run by a list of operations.

    Arithmetic and operations are those of ``accel.block_unit``, bit for bit; ``accel.block_cycles`` says in which cycle
    everything happens. Operations other than linear layers run alone, so one reader, one writer, and the second read
    port that accumulation needs serve them all.

    Parameters
    ----------
    unit : BlockUnit
        All parameters.
    counters : bool
        Build an action counter for each of ``BLOCK_ACTIONS``.

    Members
    -------
    operations : In(stream of operation_layout)
        What to do.
    features : In(beat_signature)
        Words for ``Load``, entries for ``LoadList``.
    weights : In(weight_signature)
        Weights and biases of the linear layers, in the order in which they run.
    outputs : Out(beat_signature)
        Words of ``Store``, and what a gate chose.
    refused, misaligned : Out(1)
        Errors, until reset.
    count_mac, ... : Out(48)
        With ``counters``: actions since reset, modulo 2**48.
    """

    def __init__(self, unit: BlockUnit, *, counters: bool = False) -> None:
        self._unit, self._counters = unit, counters
        self._status = {name: (1, text) for name, text in _STATUS.items()}
        if counters:
            self._status |= {
                f"count_{name}": (COUNTER_BITS, f"{BLOCK_ACTIONS[name]} (since reset, modulo 2**{COUNTER_BITS})")
                for name in unit.action_names
            }
        super().__init__(
            {
                "operations": In(stream.Signature(operation_layout())),
                "features": In(beat_signature(unit)),
                "weights": In(weight_signature(unit)),
                "outputs": Out(beat_signature(unit)),
                **{name: Out(width) for name, (width, _) in self._status.items()},
            }
        )

    @property
    def unit(self) -> BlockUnit:
        """All parameters."""
        return self._unit

    @property
    def counters(self) -> bool:
        """Whether action counters are built."""
        return self._counters

    @property
    def status(self) -> Mapping[str, tuple[int, str]]:
        """Width and meaning of each status output."""
        return dict(self._status)

    @property
    def contract(self) -> Contract:
        """What the unit promises."""
        return block_contract(self._unit, counters=self._counters)

    def elaborate(self, platform: Any) -> Any:
        """Connect memory, lists, linear unit, and the executor."""
        m = Module()
        unit = self._unit
        m.submodules.program = program = Program(unit)
        m.submodules.linear = linear = LinearCore(unit)
        m.submodules.reader = reader = Reader(unit)
        m.submodules.places = places = Places(unit)
        wiring.connect(m, wiring.flipped(self.operations), program.incoming)
        wiring.connect(m, wiring.flipped(self.weights), linear.weights)
        wiring.connect(m, program.shapes, linear.shapes)
        self._found: tuple[Any, Any] = (Const(0, 1), Const(0, 1))
        self._gate_counts: dict[str, Any] = {}
        self._begins: dict[str, list[Any]] = {"reader": [], "places": []}
        self._advance: list[Any] = []
        self._takers: list[Any] = []
        self._reads = {"a": [(linear.read, linear.read_address), (reader.read, reader.address)]}
        self._reads["b"] = [(linear.old_read, linear.old_address)]
        self._writes: list[Any] = [(linear.write, linear.write_address, linear.write_data)]
        self._list_writes: list[Any] = []
        self._done: dict[str, Any] = {}
        self._wrong: list[Any] = [linear.misaligned]
        head = program.operations.payload
        gate = self._gate(m, program, head, reader) if unit.gate is not None else None
        begin = self._execute(m, program, linear, gate)
        self._moves(m, head, begin, reader, places)
        if unit.norm is not None:
            self._normalise(m, head, begin, reader, places)
        if gate is not None:
            self._begins["reader"].append((begin["gate"], USERS["gate"], self._gate_region))
            m.d.comb += gate.begin.eq(begin["gate"])
        if unit.attention is not None:
            self._attend(m, head, begin, reader, places)
        self._connect_moves(m, reader, places)
        self._memory(m, linear, reader)
        self._lists(m, linear)
        with m.If(program.refused):
            m.d.sync += self.refused.eq(1)
        with m.If(Cat(self._wrong).any()):
            m.d.sync += self.misaligned.eq(1)
        if self._counters:
            self._count(m, linear)
        return m

    def _execute(self, m: Any, program: Any, linear: Any, gate: Any) -> dict[str, Any]:
        """Start each operation in its turn; return, one-hot by kind, which one starts to run alone in this cycle.

        Linear layers go to the linear unit as fast as it takes them; all else waits until it has written everything.
        """
        head = program.operations
        kind, running, layer = head.payload.kind, Signal(name="running"), Signal(name="is_linear")
        outstanding = Signal(8)
        pushed, finish, alone = Signal(name="job_pushed"), Signal(name="operation_done"), Signal(name="runs_alone")
        begin = {name: Signal(name=f"begin_{name}") for name in KINDS}
        m.d.comb += [
            layer.eq(kind == KINDS["linear"]),
            alone.eq(head.valid & ~layer & ~running & ~outstanding.any()),
            *(begin[name].eq(alone & (kind == KINDS[name])) for name in KINDS if name != "linear"),
            pushed.eq(linear.jobs.valid & linear.jobs.ready),
        ]
        job = Signal(job_layout(self._unit), name="job")
        for name in ("source", "target", "rows", "in_features", "out_features", "source_stride", "target_stride"):
            m.d.comb += Value.cast(job[name]).eq(head.payload[name])
        m.d.comb += [Value.cast(job.queue).eq(head.payload.queue), Value.cast(job.flags).eq(head.payload.flags)]
        offered, sent = head.valid & layer, Value.cast(job)
        if gate is not None:
            m.submodules.expert_jobs = jobs = ExpertJobs(self._unit)
            m.d.comb += [
                jobs.begin.eq(begin["experts"]),
                Value.cast(jobs.operation).eq(Value.cast(job)),
                jobs.operation.target.eq(head.payload["keys"]),
                jobs.final_target.eq(job.target),
                *(getattr(jobs, name).eq(getattr(gate, name)) for name in ("experts", "expert", "tokens")),
                gate.place.eq(jobs.place),
                jobs.ready.eq(linear.jobs.ready),
            ]
            self._done["experts"] = jobs.done
            offered, sent = offered | jobs.active, Mux(jobs.active, Value.cast(jobs.job), sent)
        m.d.comb += [linear.jobs.valid.eq(offered), Value.cast(linear.jobs.payload).eq(sent)]
        up_and_down(m, outstanding, pushed, linear.job_end)
        with m.If(alone):
            m.d.sync += running.eq(1)
        with m.Elif(finish):
            m.d.sync += running.eq(0)
        self._finish = finish
        m.d.comb += head.ready.eq((pushed & layer) | finish)
        return begin

    def _moves(self, m: Any, head: Any, begin: Any, reader: Any, places: Any) -> None:
        """Build what loads and stores words and entries."""
        filling = Signal()
        listing = Signal()
        entry = Signal(range(self._unit.max_rows))
        takes = Signal(name="takes")
        with m.If(begin["load"]):
            m.d.sync += filling.eq(1)
        with m.If(begin["load_list"]):
            m.d.sync += [listing.eq(1), entry.eq(0)]
        taken = Signal(name="feature_taken")
        list_end = entry == head.rows - 1
        last = Mux(listing, list_end, places.last)
        m.d.comb += [
            takes.eq(filling | listing),
            self.features.ready.eq(takes),
            taken.eq(takes & self.features.valid),
        ]
        with m.If(taken & last):
            m.d.sync += [filling.eq(0), listing.eq(0)]
        with m.If(taken & listing):
            m.d.sync += entry.eq((entry + 1)[: len(entry)])
        words = Value.cast(self.features.payload.numbers)
        self._writes.append((taken & filling, places.address, words))
        place = Cat(entry[: (self._unit.max_rows - 1).bit_length()], head.queue[: self._list_bits])
        given = Signal(list_layout(self._unit), name="given_entry")
        bits = self.features.payload.entry
        m.d.comb += [
            Value.cast(given.token).eq(bits[: len(Value.cast(given.token))]),
            given.score.eq(bits[16 : 16 + len(given.score)]),
        ]
        self._list_writes.append((taken & listing, place, Value.cast(given)))
        self._wrong.append(taken & (self.features.payload.last != last))
        self._done["load"] = taken & last
        self._advance.append(taken & filling)
        storing = Signal()
        with m.If(begin["store"]):
            m.d.sync += storing.eq(1)
        with m.Elif(reader.ended):
            m.d.sync += storing.eq(0)
        self._done["store"] = storing & reader.ended
        self._begins["places"].append((begin["load"], 0, self._region(m, "load", head.target, 1, head.rows, 0)))
        self._begins["reader"].append(
            (begin["store"], USERS["output"], self._region(m, "store", head.source, 1, head.rows, 0))
        )

    def _region(self, m: Any, name: str, start: Any, rows: Any, blocks: Any, stride: Any) -> Any:
        """Return words of the memory as the reader and the writer take them."""
        region = Signal(region_layout(self._unit), name=f"{name}_region")
        given = {"start": start, "rows": rows, "blocks": blocks, "stride": stride}
        m.d.comb += [Value.cast(region[part]).eq(value) for part, value in given.items()]
        return region

    def _normalise(self, m: Any, head: Any, begin: Any, reader: Any, places: Any) -> None:
        """Build the norm: rows from the reader, results to the writer."""
        unit = self._unit
        assert unit.norm is not None
        m.submodules.norm = norm = Norm(unit.norm)
        running = Signal(name="normalising")
        with m.If(begin["normalise"]):
            m.d.sync += running.eq(1)
        with m.Elif(self._finish):
            m.d.sync += running.eq(0)
        low = unit.linear.tile.bit_length() - 1
        before = Signal(16, name="norm_features")
        m.d.comb += before.eq(head.in_features - 1)
        words = (before >> low) + 1
        for name, side, start in (("norm_in", "reader", head.source), ("norm_out", "places", head.target)):
            region = self._region(m, name, start, head.rows, words, words)
            self._begins[side].append((begin["normalise"], USERS["norm"], region))
        given = reader.words.payload
        m.d.comb += [
            norm.inputs.valid.eq(reader.words.valid & (given.user == USERS["norm"])),
            Value.cast(norm.inputs.payload.number).eq(Value.cast(given.numbers)),
            norm.inputs.payload.last.eq(given.row_end),
            norm.inputs.payload.keep.eq(
                Cat(~given.row_end | (before[:low] >= lane if lane else 1) for lane in range(unit.linear.tile))
            ),
            norm.results.ready.eq(running),
        ]
        self._takers.append(norm.inputs.valid & norm.inputs.ready)
        written = norm.results.valid & running
        self._advance.append(written)
        self._writes.append((written, places.address, Value.cast(norm.results.payload.result)))
        self._done["normalise"] = written & places.last

    def _gate(self, m: Any, program: Any, head: Any, reader: Any) -> Any:
        """Build the gate: logits from the reader, entries to the lists, what has work to the output."""
        unit = self._unit
        assert unit.gate is not None
        m.submodules.gate = gate = Gate(unit)
        words = unit.linear.blocks(unit.gate.experts)
        self._gate_region = self._region(m, "gate", head.source, head.rows, words, words)
        given, port = reader.words.payload, self.outputs
        m.d.comb += [
            Value.cast(gate.rows).eq(head.rows),
            gate.words.valid.eq(reader.words.valid & (given.user == USERS["gate"])),
            Value.cast(gate.words.payload).eq(Value.cast(given.numbers)),
            gate.found_ready.eq(port.ready),
            port.payload.is_entry.eq(gate.found),
            port.payload.entry.eq(Cat(Value.cast(gate.expert) | Const(0, 16), gate.tokens)),
            program.experts.eq(gate.experts),
            program.gated.eq(gate.done),
        ]
        self._takers.append(gate.words.valid & gate.words.ready)
        self._list_writes.append((gate.list_write, gate.list_address, Value.cast(gate.list_data)))
        self._done["gate"] = gate.done
        self._found = (gate.found, gate.found_last)
        self._gate_counts = {"gate_score": gate.scored, "gate_reciprocal": gate.divided}
        return gate

    def _attend(self, m: Any, head: Any, begin: Any, reader: Any, places: Any) -> None:
        """Build the attention: queries and keys from the reader, values by the second port, results to the writer."""
        unit = self._unit
        assert unit.attention is not None
        m.submodules.attention = attention = ReorderedAttention(unit.attention)
        m.submodules.heads = heads = Heads(unit)
        m.submodules.value_reader = values = Reader(unit)
        self._reads["b"].append((values.read, values.address))
        self._value_reader = values
        starts = {"queries": head.source, "keys": head["keys"], "values": head["values"], "target": head.target}
        for name, start in starts.items():
            region = self._region(m, name, start, head.rows, unit.head_blocks, head.source_stride)
            m.d.comb += Value.cast(getattr(heads, name)).eq(Value.cast(region))
        given, job, written = reader.words.payload, attention.jobs.payload, attention.outputs.valid
        is_query = given.user == USERS["query"]
        m.d.comb += [
            heads.begin.eq(begin["attend"]),
            Value.cast(heads.heads).eq(head.queue),
            heads.keys_ended.eq(reader.ended),
            heads.ended.eq(written & places.last),
            *(Value.cast(job[name]).eq(head.rows) for name in ("queries", "keys")),
            attention.jobs.valid.eq(heads.job_valid),
            heads.job_ready.eq(attention.jobs.ready),
            values.begin.eq(heads.starts),
            values.user.eq(USERS["output"]),
            Value.cast(values.region).eq(Value.cast(heads.value_region)),
            attention.outputs.ready.eq(1),
            attention.keys.valid.eq(reader.words.valid & (given.user == USERS["key"])),
            attention.queries.valid.eq(reader.words.valid & is_query),
            attention.values.valid.eq(values.words.valid),
            values.words.ready.eq(attention.values.ready),
        ]
        for port, words in (
            (attention.keys, given),
            (attention.queries, given),
            (attention.values, values.words.payload),
        ):
            m.d.comb += [
                Value.cast(port.payload.numbers).eq(Value.cast(words.numbers)),
                port.payload.last.eq(words.last),
            ]
        for port in (attention.keys, attention.queries):
            self._takers.append(port.valid & port.ready)
        user = Mux(heads.turns, USERS["query"], USERS["key"])
        self._begins["reader"].append((heads.starts | heads.turns, user, heads.key_region))
        self._begins["places"].append((heads.starts, 0, heads.target_region))
        self._advance.append(written)
        self._writes.append((written, places.address, Value.cast(attention.outputs.payload.numbers)))
        self._done["attend"] = heads.done

    def _connect_moves(self, m: Any, reader: Any, places: Any) -> None:
        """Give the reader and the writer their turns, and the words that are read to who asked for them."""
        for part, name in ((reader, "reader"), (places, "places")):
            turns = self._begins[name]
            m.d.comb += [
                part.begin.eq(Cat(on for on, _, _ in turns).any()),
                Value.cast(part.region).eq(_either([(on, region) for on, _, region in turns])),
            ]
        words, port = reader.words, self.outputs
        stored = words.valid & (words.payload.user == USERS["output"])
        found, found_last = self._found
        m.d.comb += [
            reader.user.eq(_either([(on, user) for on, user, _ in self._begins["reader"]])),
            places.advance.eq(Cat(self._advance).any()),
            Value.cast(port.payload.numbers).eq(Value.cast(words.payload.numbers)),
            port.payload.last.eq(Mux(found, found_last, words.payload.last)),
            port.valid.eq(stored | found),
            words.ready.eq((stored & port.ready) | Cat(self._takers).any()),
            self._finish.eq(Cat(self._done.values()).any()),
        ]

    @property
    def _list_bits(self) -> int:
        return (self._unit.list_count - 1).bit_length()

    def _memory(self, m: Any, linear: Any, reader: Any) -> None:
        """Build the token memory: a port to write, one to read rows, one to read what is added to."""
        unit = self._unit
        width = len(Value.cast(self.features.payload.numbers))
        m.submodules.storage = storage = memory.Memory(shape=unsigned(width), depth=unit.memory_words, init=[])
        writer = storage.write_port()
        ports = {side: storage.read_port() for side in self._reads}
        for side, port in ports.items():
            m.d.comb += [
                port.addr.eq(_either(self._reads[side])),
                port.en.eq(Cat(on for on, _ in self._reads[side]).any()),
            ]
        m.d.comb += [
            writer.en.eq(Cat(on for on, _, _ in self._writes).any()),
            writer.addr.eq(_either([(on, address) for on, address, _ in self._writes])),
            writer.data.eq(_either([(on, Value.cast(words)) for on, _, words in self._writes])),
            Value.cast(linear.read_data).eq(ports["a"].data),
            Value.cast(reader.data).eq(ports["a"].data),
            Value.cast(linear.old_data).eq(ports["b"].data),
        ]
        if unit.attention is not None:
            m.d.comb += Value.cast(self._value_reader.data).eq(ports["b"].data)

    def _lists(self, m: Any, linear: Any) -> None:
        """Build the memory of the token lists."""
        unit = self._unit
        layout = list_layout(unit)
        depth = max(2, 1 << len(linear.list_address))
        m.submodules.lists = lists = memory.Memory(shape=unsigned(layout.size), depth=depth, init=[])
        writer, port = lists.write_port(), lists.read_port()
        m.d.comb += [
            writer.en.eq(Cat(on for on, _, _ in self._list_writes).any()),
            writer.addr.eq(_either([(on, address) for on, address, _ in self._list_writes])),
            writer.data.eq(_either([(on, entry) for on, _, entry in self._list_writes])),
            port.addr.eq(linear.list_address),
            port.en.eq(1),
            Value.cast(linear.list_data).eq(port.data),
        ]

    def _count(self, m: Any, linear: Any) -> None:
        """Count the actions of each cycle."""
        events = {
            "mac": linear.macs,
            "weight_write": linear.weight_written,
            "weight_read": linear.stepped,
            "activate": linear.activated,
            "scale": linear.scaled,
            "accumulate": linear.accumulated,
            "feature_read": population(Cat(on for side in self._reads.values() for on, _ in side)),
            "feature_write": Cat(on for on, _, _ in self._writes).any(),
            "list_write": Cat(on for on, _, _ in self._list_writes).any(),
            "list_read": linear.list_read,
            **self._gate_counts,
        }
        for name, value in events.items():
            counter = getattr(self, f"count_{name}")
            amount = Signal(len(Value.cast(value)), name=f"amount_{name}")
            m.d.sync += [amount.eq(value), counter.eq((counter + amount)[:COUNTER_BITS])]


def _either(choices: list[Any]) -> Any:
    """Return the value whose condition holds, of at most one; 0 if none does."""
    found = [Mux(on, Value.cast(value), 0) for on, value in choices]
    result = found[0]
    for each in found[1:]:
        result = result | each
    return result
