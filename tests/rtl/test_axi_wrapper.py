import random

import pytest
from amaranth.sim import Simulator

from accel.numerics import FixedPoint
from accel.softmax_unit import SoftmaxUnit
from rtl.axi import AxisWrapper, FlatWrapper, lane_bytes
from rtl.softmax import Softmax
from tests.rtl.softmax_reference import Softmax as Reference


def make_unit(source, target, lanes=3):
    return SoftmaxUnit(
        max_length=12,
        lanes=lanes,
        input_format=FixedPoint.parse(source),
        output_format=FixedPoint.parse(target),
        exp_segments=16,
    )


def make_rows(unit, count=12):
    source = random.Random(3)
    low, high = unit.input_format.min_code, unit.input_format.max_code
    return [
        [
            [None if source.random() < 0.2 else source.randint(low, high) for _ in range(unit.lanes)]
            for _ in range(source.randint(1, unit.max_beats))
        ]
        for _ in range(count)
    ]


def run(wrapper, names, rows, pack, unpack):
    """Send rows through flat ports; ``names`` are those of data, keep, last, valid, ready, in and out."""
    source, sink = ([getattr(wrapper, name) for name in side] for side in names)
    beats = [(beat, index == len(row) - 1) for row in rows for index, beat in enumerate(row)]
    found, current = [], []

    async def drive(ctx):
        nonlocal current
        rhythm, sent = random.Random(5), 0
        if isinstance(wrapper, AxisWrapper):
            ctx.set(wrapper.aresetn, 1)
        for _ in range(3000):
            if sent < len(beats):
                data, keep = pack(beats[sent][0])
                for port, value in zip(source, (data, keep, beats[sent][1], 1), strict=False):
                    ctx.set(port, value)
            else:
                ctx.set(source[3], 0)
            ctx.set(sink[4], rhythm.random() < 0.7)
            if ctx.get(sink[3]) and ctx.get(sink[4]):
                current.append(unpack(ctx.get(sink[0]), ctx.get(sink[1])))
                if ctx.get(sink[2]):
                    found.append(current)
                    current = []
            sent += ctx.get(source[3]) and ctx.get(source[4])
            await ctx.tick()

    simulator = Simulator(wrapper)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return found


AXIS = tuple(tuple(f"{side}_axis_t{part}" for part in ("data", "keep", "last", "valid", "ready")) for side in "sm")

FORMATS = [
    ("s16f10,truncate,saturate", "u16f16,nearest_up,saturate"),
    ("s12f6,truncate,saturate", "s11f9,nearest_up,saturate"),
    ("u5f2,truncate,saturate", "u20f18,nearest_up,saturate"),
]


@pytest.mark.parametrize(("source", "target"), FORMATS)
def test_axi_lanes_take_whole_bytes_and_a_score_is_present_if_its_lowest_byte_is(source, target):
    unit = make_unit(source, target)
    core = Softmax(unit)
    read, written = lane_bytes(core.source_beat), lane_bytes(core.sink_beat)
    junk = random.Random(9)

    def pack(beat):
        data = keep = 0
        for lane, code in enumerate(beat):
            width = unit.input_format.width_bits
            bits = int(unit.input_format.to_bits(code or 0))
            bits |= junk.getrandbits(8 * read - width) << width if 8 * read > width else 0
            present = junk.getrandbits(read) & ~1 | (code is not None)
            data |= bits << (8 * read * lane)
            keep |= present << (read * lane)
        return data, keep

    def unpack(data, keep):
        beat = []
        for lane in range(unit.lanes):
            code = data >> (8 * written * lane) & ((1 << 8 * written) - 1)
            present = keep >> (written * lane) & ((1 << written) - 1)
            assert present in (0, (1 << written) - 1)
            assert present or code == 0
            beat.append(code if present else None)
        return beat

    rows = make_rows(unit)
    assert run(AxisWrapper(core), AXIS, rows, pack, unpack) == Reference(unit).rows(rows)


def test_flat_ports_hold_the_lanes_side_by_side():
    unit = make_unit("s12f6,truncate,saturate", "u11f11,nearest_up,saturate")
    names = tuple(
        tuple(f"{stream}_{part}" for part in (field, "keep", "last", "valid", "ready"))
        for stream, field in (("scores", "score"), ("weights", "weight"))
    )

    def pack(beat):
        codes = [int(unit.input_format.to_bits(code or 0)) << 12 * lane for lane, code in enumerate(beat)]
        return sum(codes), sum(1 << lane for lane, code in enumerate(beat) if code is not None)

    def unpack(data, keep):
        return [data >> 11 * lane & 2047 if keep >> lane & 1 else None for lane in range(unit.lanes)]

    rows = make_rows(unit)
    assert run(FlatWrapper(Softmax(unit)), names, rows, pack, unpack) == Reference(unit).rows(rows)


def test_a_low_aresetn_empties_the_unit():
    wrapper = AxisWrapper(Softmax(make_unit(*FORMATS[0], lanes=1), counters=True))
    seen = []

    async def drive(ctx):
        ctx.set(wrapper.aresetn, 1)
        ctx.set(wrapper.s_axis_tvalid, 1)
        ctx.set(wrapper.s_axis_tkeep, 3)
        ctx.set(wrapper.s_axis_tlast, 1)
        for cycle in range(200):
            if cycle == 20:
                ctx.set(wrapper.s_axis_tvalid, 0)
                ctx.set(wrapper.aresetn, 0)
            if cycle == 30:
                ctx.set(wrapper.aresetn, 1)
                assert ctx.get(wrapper.count_exp) == 0
                assert ctx.get(wrapper.s_axis_tready) == 1
            seen.append(ctx.get(wrapper.m_axis_tvalid))
            await ctx.tick()

    simulator = Simulator(wrapper)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    assert not any(seen)
