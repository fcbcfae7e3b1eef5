"""The reordered attention unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from accel.reordered_unit import REORDERED_ACTIONS, ReorderedUnit
from rtl.arith import population
from rtl.attention.reordered.choice import chosen
from rtl.attention.reordered.layouts import (
    job_layout,
    operand_signature,
    reciprocal_layout,
    result_layout,
    weight_layout,
)
from rtl.attention.reordered.operands import OperandBuffer
from rtl.attention.reordered.outputs import Accumulators, Normalise
from rtl.attention.reordered.scores import Scores, ScoreTurns
from rtl.attention.reordered.sequencer import Sequencer
from rtl.attention.reordered.weights import Exponential, RunningSums
from rtl.contract import Contract
from rtl.reciprocal import Reciprocal
from rtl.stream import MemoryFifo, delay

__all__ = ["COUNTER_BITS", "ReorderedAttention", "reordered_contract"]

COUNTER_BITS = 48
JOB_QUEUE_DEPTH = 4

_STATUS = {
    "refused": "a job had a length of 0 or above the unit's; it was dropped; stays high until reset",
    "misaligned": "the last block of Q, K or V was not where the job's lengths say; stays high until reset",
}


def reordered_contract(unit: ReorderedUnit, *, counters: bool = False) -> Contract:
    """Return what a ``ReorderedAttention`` of these parameters promises, without building it."""
    parameters = ("max_length", "key_features", "value_features", "slots", "block", "banks")
    derived = (
        *("iteration_cycles", "exp_units", "log2_factor", "log2_factor_fraction_bits", "score_bits"),
        *("sum_bits", "sum_fraction_bits", "accumulator_bits", "reciprocal_fraction_bits", "quotient_bits"),
        *("row_buffer_beats", "weight_error"),
    )
    key_bits = unit.banks * unit.max_length * unit.key_features * unit.key_format.width_bits
    value_bits = unit.banks * unit.max_length * unit.value_features * unit.value_format.width_bits
    return Contract(
        unit="attention-reordered",
        family="attention",
        summary=(
            f"Attention of {unit.slots} query rows at a time: one key and one value block a cycle for all of them.",
            f"Up to {unit.max_length} queries and keys of {unit.key_features} and {unit.value_features} features.",
            f"{unit.block} features a beat; an iteration takes {unit.iteration_cycles} cycle(s).",
            f"Q {unit.query_format}; K {unit.key_format}; V {unit.value_format}; outputs {unit.output_format}.",
            f"Every output is within {unit.max_error:.3g} of the exact attention of the inputs.",
        ),
        parameters={name: getattr(unit, name) for name in parameters}
        | {
            "key_format": str(unit.key_format),
            "value_format": str(unit.value_format),
            "weight_fraction_bits": unit.weight_fraction_bits,
            "guard_bits": unit.guard_bits,
            "score_scale": unit.scale,
            "exp_segments": unit.exp_segments,
            "counters": counters,
        },
        derived={name: getattr(unit, name) for name in derived}
        | {
            "key_buffer_bits": key_bits,
            "value_buffer_bits": value_bits,
            "multipliers": 2 * unit.slots * unit.block,
            "exp_rom_bits": unit.exp2.rom_bits * unit.exp_units,
            "reciprocal_rom_bits": unit.reciprocal.rom_bits,
        },
        input_format=unit.query_format,
        output_format=unit.output_format,
        latency_cycles=unit.latency_cycles,
        interval_cycles=1,
        latency_span="from the last block of a row's last key to the row's first outputs",
        max_error=unit.max_error,
        actions=dict(REORDERED_ACTIONS) if counters else {},
    )


class ReorderedAttention(wiring.Component):
    """Attention by the reordered schedule (Edge-MoE, ICCAD 2023): Q, K and V in, the attended values out.

    Arithmetic, widths, error bound and cycles are those of ``accel.reordered_unit`` and ``accel.reordered_cycles``, bit
    for bit and cycle for cycle; the order is that of ``accel.reordered_schedule``. Heads are jobs, one after the other.
    K and V of a job are loaded first (with two banks, while the job before it is worked on); its rows of Q are then
    taken one at a time as slots become free. Rows leave in their order. Scores stay inside: a row costs one
    reciprocal, and ``value_features`` multiplications, after its last key.

    Nothing behind the sequencer ever waits. It waits for Q, and, before it finishes a row, for room in the row buffer;
    the room is enough never to wait while the outputs are taken. No path leads from an output's ready to an input's.

    Parameters
    ----------
    unit : ReorderedUnit
        All parameters of the arithmetic and of the schedule.
    counters : bool
        Build an action counter for each of ``REORDERED_ACTIONS``.

    Members
    -------
    jobs : In(stream of {queries, keys, offset, causal})
        Settings of a head.
    queries, keys, values : In(streams of {numbers, last})
        Rows of Q, K and V, ``block`` numbers a beat; ``last`` ends the tensor of a job.
    outputs : Out(stream of {numbers, last})
        Rows of the result, likewise.
    refused, misaligned : Out(1)
        Errors, until reset.
    count_mac_qk, ... : Out(48)
        With ``counters``: actions since reset, modulo 2**48.
    """

    def __init__(self, unit: ReorderedUnit, *, counters: bool = False) -> None:
        self._unit, self._counters = unit, counters
        self._status = {name: (1, text) for name, text in _STATUS.items()}
        if counters:
            self._status |= {
                f"count_{name}": (COUNTER_BITS, f"{text} (since reset, modulo 2**{COUNTER_BITS})")
                for name, text in REORDERED_ACTIONS.items()
            }
        super().__init__(
            {
                "jobs": In(stream.Signature(job_layout(unit))),
                "queries": In(operand_signature(unit, unit.query_format)),
                "keys": In(operand_signature(unit, unit.key_format)),
                "values": In(operand_signature(unit, unit.value_format)),
                "outputs": Out(operand_signature(unit, unit.output_format)),
                **{name: Out(width) for name, (width, _) in self._status.items()},
            }
        )

    @property
    def unit(self) -> ReorderedUnit:
        """The parameters of the arithmetic and of the schedule."""
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
        return reordered_contract(self._unit, counters=self._counters)

    def elaborate(self, platform: Any) -> Any:
        """Connect the parts."""
        m = Module()
        unit = self._unit
        m.submodules.keys_buffer = keys = OperandBuffer(unit, unit.key_format, unit.key_blocks)
        m.submodules.values_buffer = values = OperandBuffer(unit, unit.value_format, unit.value_blocks)
        m.submodules.sequencer = sequencer = Sequencer(unit)
        m.submodules.scores = scores = Scores(unit)
        m.submodules.accumulators = accumulators = Accumulators(unit)
        m.submodules.row_buffer = row_buffer = MemoryFifo(result_layout(unit), depth=unit.row_buffer_beats)
        m.submodules.normalise = normalise = Normalise(unit)
        wiring.connect(m, wiring.flipped(self.keys), keys.beats)
        wiring.connect(m, wiring.flipped(self.values), values.beats)
        wiring.connect(m, sequencer.steps, scores.steps)
        wiring.connect(m, row_buffer.o, normalise.rows)
        wiring.connect(m, normalise.outputs, wiring.flipped(self.outputs))

        self._distribute(m, keys, values, sequencer)
        step = sequencer.steps
        m.d.comb += [
            sequencer.loaded.eq(keys.loaded & values.loaded),
            sequencer.query_valid.eq(self.queries.valid),
            sequencer.query_last.eq(self.queries.payload.last),
            self.queries.ready.eq(sequencer.query_ready),
            sequencer.returned.eq(normalise.taken),
            scores.query.eq(self.queries.payload.numbers),
            keys.claim.eq(sequencer.begins),
            values.claim.eq(sequencer.begins),
            keys.release.eq(sequencer.ended),
            keys.advance.eq(step.valid),
            keys.restart.eq(step.payload.start & ~step.payload.block.any()),
            scores.key.eq(keys.numbers),
            row_buffer.i.payload.eq(accumulators.rows.payload),
            row_buffer.i.valid.eq(accumulators.rows.valid),
        ]
        with m.If(sequencer.misaligned | keys.misaligned | values.misaligned):
            m.d.sync += self.misaligned.eq(1)
        groups = self._weigh(m, scores)
        self._hand_over(m, sequencer, groups, accumulators, values, normalise)
        if self._counters:
            sums = [each for each, _ in groups]
            ones = {name: Cat(getattr(each, name) for each in sums) for name in ("compared", "added", "rescaled")}
            self._count(m, ones, scores, accumulators, keys, values, normalise)
        return m

    def _distribute(self, m: Any, keys: Any, values: Any, sequencer: Any) -> None:
        """Check each job and give it to the two loaders and the sequencer."""
        unit, job = self._unit, self.jobs.payload
        good = Signal()
        fits = [job.queries.any(), job.keys.any()]
        if unit.max_length + 1 < 1 << len(job.keys):
            fits += [each <= unit.max_length for each in (job.queries, job.keys, job.offset)]
        m.d.comb += good.eq(Cat(fits).all())
        queues = []
        for name, payload in (("keys", job.keys), ("values", job.keys), ("work", job)):
            queue = fifo.SyncFIFO(width=len(Value.cast(payload)), depth=JOB_QUEUE_DEPTH)
            m.submodules[f"{name}_jobs"] = queue
            m.d.comb += queue.w_data.eq(payload)
            queues.append(queue)
        room = Signal(name="job_room")
        m.d.comb += [room.eq(Cat(queue.w_rdy for queue in queues).all()), self.jobs.ready.eq(room)]
        for queue, target in zip(queues, (keys.lengths, values.lengths, sequencer.jobs), strict=True):
            m.d.comb += [
                queue.w_en.eq(self.jobs.valid & room & good),
                Value.cast(target.payload).eq(queue.r_data),
                target.valid.eq(queue.r_rdy),
                queue.r_en.eq(target.ready),
            ]
        with m.If(self.jobs.valid & room & ~good):
            m.d.sync += self.refused.eq(1)

    def _weigh(self, m: Any, scores: Any) -> list[tuple[RunningSums, range]]:
        """Build the exponential units; return the running sums of each, and its slots."""
        unit, found = self._unit, scores.scores.payload
        groups = []
        for index in range(unit.exp_units):
            slots = range(index * unit.group, min((index + 1) * unit.group, unit.slots))
            turns = ScoreTurns(unit, len(slots))
            exponential, sums = Exponential(unit), RunningSums(unit, len(slots))
            m.submodules[f"turns_{index}"] = turns
            m.submodules[f"exponential_{index}"] = exponential
            m.submodules[f"sums_{index}"] = sums
            waited = Exponential.latency_cycles
            late = delay(m, turns.turns.payload, waited, name=f"turn_{index}")
            m.d.comb += [
                turns.scores.score.eq(Cat(found.score[slot] for slot in slots)),
                *(turns.scores[name].eq(found[name][slots.start : slots.stop]) for name in ("first", "last", "live")),
                turns.taken.eq(scores.scores.valid),
                exponential.turns.payload.eq(turns.turns.payload),
                exponential.turns.valid.eq(turns.turns.valid),
                sums.turns.payload.eq(late),
                sums.turns.valid.eq(delay(m, turns.turns.valid, waited, name=f"turn_valid_{index}", reset_less=False)),
                sums.mantissa.eq(exponential.mantissa),
                sums.halvings.eq(exponential.halvings),
            ]
            groups.append((sums, slots))
        return groups

    def _hand_over(self, m: Any, sequencer: Any, groups: Any, accumulators: Any, values: Any, normalise: Any) -> None:
        """Collect the weights of an iteration, give them to the accumulators, and read the value they weigh."""
        unit, step = self._unit, sequencer.steps
        # Cycles from the step of a key's last block to its value's first block being read.
        wait = unit.score_cycles - 2
        ahead = delay(m, step.valid & step.payload.end, wait, name="ahead", reset_less=False)
        start = delay(m, step.payload.start, wait, name="ahead_start")
        done = delay(m, sequencer.done, wait, name="ahead_done")
        place = Signal(range(unit.value_blocks))
        reading, final, held_done = Signal(), Signal(), Signal(reset_less=True)
        m.d.comb += [reading.eq(ahead | place.any()), final.eq(Mux(ahead, done, held_done))]
        m.d.sync += held_done.eq(final)
        if unit.value_blocks > 1:
            with m.If(reading):
                m.d.sync += place.eq(Mux(place == unit.value_blocks - 1, 0, (place + 1)[: len(place)]))
        m.d.comb += [
            values.advance.eq(reading),
            values.restart.eq(ahead & start),
            values.release.eq(reading & final & (place == unit.value_blocks - 1)),
            accumulators.value.eq(delay(m, values.numbers, 1, name="value")),
            accumulators.place.eq(delay(m, place, 2, name="place")),
            accumulators.working.eq(delay(m, reading, 2, name="working", reset_less=False)),
            accumulators.done.eq(delay(m, final, 2, name="final")),
        ]
        taken = delay(m, ahead, 1, name="taken", reset_less=False)
        totals, finishes = [], []
        for index, (sums, slots) in enumerate(groups):
            collected = [Signal(weight_layout(unit), name=f"weight_{slot}", reset_less=True) for slot in slots]
            turn = delay(m, sums.turns.payload.turn, 3, name=f"collect_{index}")
            for place_in_group, (slot, each) in enumerate(zip(slots, collected, strict=True)):
                with m.If(sums.weights.valid & turn[place_in_group]):
                    m.d.sync += each.eq(sums.weights.payload)
                current = Signal(weight_layout(unit), name=f"current_{slot}", reset_less=True)
                with m.If(taken):
                    m.d.sync += current.eq(each)
                m.d.comb += accumulators.weights[slot].eq(current)
            finishes.append(Cat(each.last for each in collected).any())
            totals.append(sums.total)
        total = chosen(totals, Cat(finishes))
        self._reciprocals(m, taken & Cat(finishes).any(), total, normalise)

    def _reciprocals(self, m: Any, finished: Any, total: Any, normalise: Any) -> None:
        """Take the reciprocal of the sum of the row that is finished, and queue it."""
        unit = self._unit
        m.submodules.reciprocal = reciprocal = Reciprocal(
            value_bits=unit.sum_bits, fraction_bits=unit.reciprocal_fraction_bits, guess=unit.reciprocal
        )
        m.submodules.row_queue = queue = MemoryFifo(
            reciprocal_layout(unit), depth=unit.row_buffer_beats // unit.value_blocks
        )
        wiring.connect(m, queue.o, normalise.reciprocals)
        found = reciprocal.result.payload
        shift = queue.i.payload.shift
        self._finished = finished
        m.d.comb += [
            reciprocal.value.payload.eq(delay(m, total, 1, name="total")),
            reciprocal.value.valid.eq(delay(m, finished, 1, name="finished", reset_less=False)),
            queue.i.payload.reciprocal.eq(found.mantissa),
            shift.eq((found.exponent - unit.quotient_fraction_bits)[: len(shift)]),
            queue.i.valid.eq(reciprocal.result.valid),
        ]

    def _count(self, m: Any, ones: Any, scores: Any, accumulators: Any, keys: Any, values: Any, normalise: Any) -> None:
        """Count the set bits of each event, each ``each`` times."""
        unit = self._unit
        events = {
            "mac_qk": (scores.multiplied, unit.block),
            "exp": (ones["compared"], 1),
            "max": (ones["compared"], 1),
            "add": (ones["added"], 1),
            "rescale": (ones["rescaled"], 1),
            "mac_av": (accumulators.multiplied, unit.block),
            "rescale_av": (accumulators.rescaled, unit.block),
            "reciprocal": (self._finished, 1),
            "multiply": (normalise.taken, unit.block),
            "query_write": (scores.loaded, 1),
            "query_read": (scores.reread, 1),
            "key_write": (keys.written, 1),
            "key_read": (keys.advance, 1),
            "value_write": (values.written, 1),
            "value_read": (values.advance, 1),
            "accumulator_write": (accumulators.written, 1),
            "accumulator_read": (accumulators.read, 1),
            "row_write": (accumulators.rows.valid, 1),
            "row_read": (normalise.taken, 1),
        }
        for name, (bits, each) in events.items():
            counter = getattr(self, f"count_{name}")
            # The bits are counted in a register first: with 64 slots that is a cycle's work.
            number = population(bits)
            amount = Signal(len(number), name=f"amount_{name}")
            m.d.sync += [amount.eq(number), counter.eq((counter + amount * each)[:COUNTER_BITS])]
