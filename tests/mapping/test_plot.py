"""Pictures of schedules: bars that fill the epoch as the model says, and files that are reproducible."""

import struct

import pytest

from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.schedule import Schedule, load_template
from accel.workload import Workload
from mapping.model import price
from mapping.plot import gantt
from mapping.timeline import epoch_bars

CASCADE = load_cascade("attention-1pass")
PLAN = load_template("interleaved-1pass").plan
WORKLOAD = Workload(name="w", batch=64, heads=12, kv_heads=12, queries=4096, keys=4096, query_key_dim=64, value_dim=64)


def result_on(name, **tiles):
    architecture = load_architecture(name)
    schedule = Schedule(cascade=CASCADE.name, architecture=name, tiles=tiles, plan=PLAN)
    return price(CASCADE, architecture, schedule, WORKLOAD)


RESULTS = [
    result_on("fusemax-cloud", m0=256, p0=256, p1=16),
    result_on("fusemax-cloud", m0=512, p0=256, p1=16),
    result_on("fpga-8x8", m0=32, p0=8, p1=4),
]


@pytest.mark.parametrize("result", RESULTS)
def test_bars_end_with_the_epoch_and_never_overlap_on_an_array(result):
    bars = epoch_bars(result)
    assert max(bar.end for bar in bars) == result.epoch_cycles
    for array in ("2d", "1d"):
        own = [bar for bar in bars if bar.array == array]
        for one in own:
            for other in own:
                together = one is not other and one.begin < other.end and other.begin < one.end
                assert not together or (one.slots > 1 and one.slot != other.slot)


@pytest.mark.parametrize("result", RESULTS)
def test_bars_that_alternate_take_their_cycles_among_those_of_the_others(result):
    cycles = {each.einsum: each.tile_cycles for each in result.einsums}
    for bar in epoch_bars(result):
        if bar.slots == 1:
            assert bar.end - bar.begin == cycles[bar.einsum]
        else:
            assert cycles[bar.einsum] <= bar.end - bar.begin <= bar.slots * cycles[bar.einsum]


def test_an_einsum_that_runs_after_a_loop_is_not_part_of_the_steady_epoch():
    assert "AV" not in {bar.einsum for bar in epoch_bars(RESULTS[0])}
    one_key_tile = Workload(name="w", batch=1, heads=1, kv_heads=1, queries=64, keys=8, query_key_dim=8, value_dim=8)
    architecture = load_architecture("fpga-8x8")
    schedule = Schedule(cascade=CASCADE.name, architecture="fpga-8x8", tiles={"m0": 8, "p0": 8, "p1": 8}, plan=PLAN)
    result = price(CASCADE, architecture, schedule, one_key_tile)
    assert max(bar.end for bar in epoch_bars(result)) == result.epoch_cycles
    assert "AV" in {bar.einsum for bar in epoch_bars(result)}


def test_a_picture_is_1200_pixels_wide_and_the_same_each_time(tmp_path):
    one, two = tmp_path / "one.png", tmp_path / "two.png"
    gantt(RESULTS[0], one)
    gantt(RESULTS[0], two)
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", one.read_bytes()[16:20]) == (1200,)


def test_another_schedule_gives_another_picture(tmp_path):
    gantt(RESULTS[0], tmp_path / "one.png")
    gantt(RESULTS[1], tmp_path / "two.png")
    assert (tmp_path / "one.png").read_bytes() != (tmp_path / "two.png").read_bytes()
