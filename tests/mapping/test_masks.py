"""Causal and windowed masks: which tiles run, what they cost, and how shared heads and decoding come in."""

import dataclasses
import random
import time
from collections import Counter

import pytest

from accel.arch import load_architecture
from accel.cascade import Cascade, load_cascade
from accel.cost import load_cost_table
from accel.errors import InputError
from accel.notation import parse
from accel.result import Result
from accel.schedule import Level, MaskedTiles, Plan, Residence, Schedule, load_template
from accel.workload import Workload
from mapping.bound import bind
from mapping.derive import derive
from mapping.explain import explain
from mapping.model import price, price_tiling
from mapping.templates import find_plan
from mapping.tiling import TileClass, Tiling
from sim.events import differences, execute, random_inputs

CAUSAL = load_cascade("attention-1pass-causal")
WINDOW = load_cascade("attention-1pass-window")
WHOLE = load_cascade("attention-1pass")
FPGA = load_architecture("fpga-8x8")
CLOUD = load_architecture("fusemax-cloud")
COSTS = {each.name: load_cost_table(each.technology) for each in (FPGA, CLOUD)}
PLAN = load_template("interleaved-1pass").plan
SMALL = Workload(name="small", batch=1, heads=1, kv_heads=1, queries=12, keys=12, query_key_dim=2, value_dim=3)


def tiling(cascade: Cascade, workload: Workload, tiles: dict[str, int], plan: Plan = PLAN, on=FPGA) -> Tiling:
    return Tiling(bound=bind(cascade, on, plan), tiles=tiles, workload=workload)


def priced(cascade: Cascade, workload: Workload, tiles: dict[str, int], plan: Plan = PLAN, on=FPGA) -> Result:
    schedule = Schedule(cascade=cascade.name, architecture=on.name, tiles=tiles, plan=plan)
    return price(cascade, on, schedule, workload, COSTS[on.name])


# Which tiles run -----------------------------------------------------------------------------------------------------


def test_a_causal_mask_leaves_the_lower_triangle_of_tiles():
    found = tiling(CAUSAL, SMALL, {"m0": 3, "p0": 3, "p1": 2}).masked
    assert (found.first.tolist(), found.last.tolist()) == ([0, 0, 0, 0], [0, 1, 2, 3])


def test_a_window_leaves_a_band():
    workload = dataclasses.replace(SMALL, window=4)
    found = tiling(WINDOW, workload, {"m0": 3, "p0": 3, "p1": 2}).masked
    # Query 3 sees keys 0 to 3, query 6 keys 3 to 6, query 9 keys 6 to 9.
    assert (found.first.tolist(), found.last.tolist()) == ([0, 0, 1, 2], [0, 1, 2, 3])


def test_queries_of_decoding_are_the_last_positions():
    workload = dataclasses.replace(SMALL, queries=1, keys=12, window=4)
    assert tiling(CAUSAL, workload, {"m0": 3, "p0": 1, "p1": 1}).masked is None  # all keys are seen
    found = tiling(WINDOW, workload, {"m0": 3, "p0": 1, "p1": 1}).masked
    assert (found.first.tolist(), found.last.tolist()) == ([2], [3])  # keys 8 to 11


def test_heads_that_share_keys_are_stacked_position_by_position():
    workload = dataclasses.replace(SMALL, heads=4, kv_heads=1, queries=3, keys=3)
    found = tiling(CAUSAL, workload, {"m0": 1, "p0": 4, "p1": 1}).masked
    assert found.last.tolist() == [0, 1, 2]  # four heads of one position a tile
    found = tiling(CAUSAL, workload, {"m0": 1, "p0": 6, "p1": 1}).masked
    assert found.last.tolist() == [1, 2]


def test_queries_without_a_key_run_for_the_last_tile():
    workload = dataclasses.replace(SMALL, queries=12, keys=6)
    found = tiling(CAUSAL, workload, {"m0": 3, "p0": 3, "p1": 2}).masked
    assert (found.first.tolist(), found.last.tolist()) == ([1, 1, 0, 0], [1, 1, 0, 1])


def written_out(given: Tiling) -> tuple[list[tuple[int, int]], list[TileClass]]:
    """Return every tile of one instance in the order of the loops, with its class."""
    plan, masked = given.bound.plan, given.masked
    places: list[tuple[int, int]] = []
    extents: list[dict[str, int]] = []

    def nest(loops, ranges):
        if loops:
            rank, span = plan.split_of[loops[0]], given.span(loops[0])
            for start in range(*ranges[rank], span):
                nest(loops[1:], {**ranges, rank: (start, min(start + span, ranges[rank][1]))})
            return
        row, column = ranges["p"][0] // given.tiles["p0"], ranges["m"][0] // given.tiles["m0"]
        if masked.first[row] <= column <= masked.last[row]:
            places.append((row, column))
            extents.append({rank: end - begin for rank, (begin, end) in ranges.items()})

    nest(plan.loops, {rank: (0, given.size(rank)) for rank in plan.splits})
    before = [(None, None), *places]
    return places, [
        TileClass(
            tuple(extent[rank] for rank in plan.splits),
            (bool(place[1] == masked.last[place[0]]),) * len(given.bound.once_ranks),
            tuple({"p": place[0] != old[0], "m": place[1] != old[1]}[rank] for rank in plan.splits),
        )
        for place, extent, old in zip(places, extents, before, strict=False)
    ]


def test_windows_of_masked_tiles_are_those_of_the_list():
    rng = random.Random(4)
    checked = 0
    while checked < 150:
        heads = rng.choice([1, 1, 2, 3])
        workload = dataclasses.replace(
            SMALL, heads=heads, queries=rng.randint(1, 60), keys=rng.randint(1, 80), window=rng.choice([1, 3, 10, 30])
        )
        loops = rng.choice([("p2", "m1", "p1"), ("p2", "p1", "m1"), ("m1", "p2", "p1")])
        tiles = {"m0": rng.randint(1, 9), "p0": rng.randint(1, 9), "p1": rng.randint(1, 6)}
        given = tiling(rng.choice([CAUSAL, WINDOW]), workload, tiles, dataclasses.replace(PLAN, loops=loops))
        if given.masked is None:
            continue
        checked += 1
        depth = rng.randint(0, 6)
        places, classes = written_out(given)
        known = given.masked.sequence(depth)
        assert known.length == len(classes)
        assert known.windows == Counter(tuple(classes[at : at + depth + 1]) for at in range(len(classes) - depth))
        assert list(known.first) == classes[:depth]
        assert list(known.last) == classes[max(len(classes) - depth, 0) :]
        last: dict[int, int] = {}
        distances = []
        for number, (row, _) in enumerate(places):
            distances += [number - last[row]] if row in last else []
            last[row] = number
        assert given.recurrence_tiles("m") == min(distances, default=None)


def test_the_cost_of_pricing_a_masked_schedule_hardly_grows_with_length():
    def seconds(length: int) -> float:
        workload = dataclasses.replace(SMALL, queries=length, keys=length, query_key_dim=128, value_dim=128)
        given = tiling(CAUSAL, workload, {"m0": 256, "p0": 256, "p1": 8}, on=CLOUD)
        begin = time.process_time()
        price_tiling(given, COSTS[CLOUD.name])
        return time.process_time() - begin

    seconds(4096)
    assert seconds(2**20) < 1.0  # 0.05 s when nothing else runs: one pass over the queries


# What they cost ------------------------------------------------------------------------------------------------------


def test_a_causal_mask_halves_the_work():
    workload = dataclasses.replace(SMALL, queries=2**16, keys=2**16, query_key_dim=64, value_dim=64)
    tiles = {"m0": 256, "p0": 256, "p1": 8}
    whole, masked = priced(WHOLE, workload, tiles, on=CLOUD), priced(CAUSAL, workload, tiles, on=CLOUD)
    count = 2**16 // 256
    assert (whole.epochs, masked.epochs) == (count**2, count * (count + 1) // 2)
    # K and V: for each group of 8 query tiles the keys up to its last query.
    assert masked.count("dram", "read", "K") == sum(range(8, count + 1, 8)) * 256 * 64 * 16 // CLOUD.dram.word_bits
    assert masked.count("dram", "read", "Q") == whole.count("dram", "read", "Q")
    assert masked.count("dram", "write", "AV") == whole.count("dram", "write", "AV")
    points = {each.einsum: each.points for each in masked.einsums}
    assert points["BQK"] == masked.epochs * 256 * 256 * 64  # a tile that the mask crosses is worked on as a whole


def test_a_window_costs_the_same_for_each_query():
    def cycles(length: int) -> int:
        workload = dataclasses.replace(SMALL, queries=length, keys=length, query_key_dim=64, value_dim=64, window=4096)
        return priced(WINDOW, workload, {"m0": 256, "p0": 256, "p1": 1}, on=CLOUD).compute_cycles

    assert cycles(2**19) - cycles(2**18) == 2 * (cycles(2**18) - cycles(2**17))


def test_empty_tiles_run_if_the_plan_says_so():
    tiles = {"m0": 3, "p0": 3, "p1": 2}
    run = dataclasses.replace(PLAN, masked_tiles=MaskedTiles.RUN)
    ours, whole = priced(CAUSAL, SMALL, tiles, run), priced(WHOLE, SMALL, tiles)
    assert ours.compute_cycles == whole.compute_cycles
    assert [(each.unit, each.action, each.count) for each in ours.actions] == [
        (each.unit, each.action, each.count) for each in whole.actions
    ]


def test_a_mask_that_empties_no_tile_changes_nothing():
    workload = dataclasses.replace(SMALL, queries=1)
    tiles = {"m0": 4, "p0": 1, "p1": 1}
    assert priced(CAUSAL, workload, tiles).compute_cycles == priced(WHOLE, workload, tiles).compute_cycles


def executed(cascade: Cascade, workload: Workload, tiles: dict[str, int], plan: Plan = PLAN) -> list[str]:
    """Return how an execution on the small FPGA differs from its price."""
    schedule = Schedule(cascade=cascade.name, architecture=FPGA.name, tiles=tiles, plan=plan)
    inputs = random_inputs(cascade, schedule, workload)
    return differences(execute(cascade, FPGA, schedule, workload, inputs), priced(cascade, workload, tiles, plan))


@pytest.mark.parametrize(
    ("changes", "tiles"),
    [
        ({"heads": 8, "kv_heads": 2, "queries": 1, "keys": 37}, {"m0": 8, "p0": 4, "p1": 1}),
        ({"heads": 6, "kv_heads": 1, "queries": 5, "keys": 9}, {"m0": 4, "p0": 8, "p1": 2}),
        ({"queries": 7, "keys": 31, "window": 9}, {"m0": 4, "p0": 3, "p1": 2}),
        ({"batch": 2, "heads": 2, "kv_heads": 2, "query_key_dim": 5, "value_dim": 1}, {"m0": 5, "p0": 5, "p1": 3}),
        ({"heads": 4, "kv_heads": 1, "queries": 1, "keys": 1}, {"m0": 8, "p0": 8, "p1": 1}),
    ],
    ids=["decoding, shared heads", "one key head", "a chunk of a prompt", "batch, E other than F", "the first token"],
)
@pytest.mark.parametrize("cascade", [WHOLE, CAUSAL, WINDOW], ids=lambda each: each.name)
def test_shared_heads_and_decoding_execute_at_their_price(cascade, changes, tiles):
    assert executed(cascade, dataclasses.replace(SMALL, **changes), tiles) == []


@pytest.mark.parametrize("within", ["p2", "p1"])
def test_queries_kept_inside_the_loop_over_keys_are_fetched_as_executed(within):
    plan = dataclasses.replace(
        PLAN,
        loops=("m1", "p2", "p1"),
        residency={
            name: Residence(level=Level.BUFFER, within=within if name == "Q" else "instance")
            if home.level is Level.BUFFER
            else home
            for name, home in PLAN.residency.items()
        },
    )
    for keys, queries in ((23, 23), (9, 30), (30, 9)):
        workload = dataclasses.replace(SMALL, queries=queries, keys=keys, window=5)
        assert executed(WINDOW, workload, {"m0": 2, "p0": 2, "p1": 3}, plan) == []


@pytest.mark.parametrize("name", ["fusemax-cloud", "edge", "tpu-like"])
def test_decoding_with_shared_heads_is_priced_on_packaged_architectures(name):
    on = load_architecture(name)
    COSTS[name] = load_cost_table(on.technology)
    workload = Workload(
        name="llama", batch=4, heads=32, kv_heads=8, queries=1, keys=8192, query_key_dim=128, value_dim=128
    )
    tiles = {"m0": 32, "p0": 4, "p1": 1}
    plan = find_plan(WHOLE, on)
    if name == "tpu-like":  # sums late enough that the division takes them up before those of the next instance come
        plan = dataclasses.replace(plan, offsets={**plan.offsets, "SPD": 3, "RD": 3})
    whole = priced(WHOLE, workload, tiles, plan, on=on)
    assert priced(CAUSAL, workload, tiles, plan, on=on).latency_cycles == whole.latency_cycles
    narrow = priced(WINDOW, dataclasses.replace(workload, window=1024), tiles, plan, on=on)
    assert narrow.count("dram", "read", "K") == whole.count("dram", "read", "K") // 8
    assert whole.count("dram", "read", "K") * on.dram.word_bits == 4 * 8 * 8192 * 128 * on.width_bits


# Cascades ------------------------------------------------------------------------------------------------------------

PLAIN = """cascade causal
  input  Q[p,e]  K[m,e]  V[m,f]
  QK[p,m] = Q[p,e] * K[m,e]       where m <= p
  GM[p]   = QK[p,m] :: max[m]     where m <= p
  SN[p,m] = exp(QK[p,m] - GM[p])  where m <= p
  SD[p]   = SN[p,m]
  A[p,m]  = SN[p,m] / SD[p]
  AV[p,f] = A[p,m] * V[m,f]
"""


def test_a_derived_cascade_finds_its_template_and_costs_what_the_packaged_one_does():
    cascade = derive(parse(PLAIN, file="causal.ein")).cascade
    tiles = {"m0": 3, "p0": 3, "p1": 2}
    ours = priced(cascade, SMALL, tiles, find_plan(cascade, FPGA))
    packaged = priced(CAUSAL, SMALL, tiles)
    assert ours.compute_cycles == packaged.compute_cycles
    assert ours.energy_pj == pytest.approx(packaged.energy_pj)
    assert executed(cascade, SMALL, tiles, find_plan(cascade, FPGA)) == []


def test_a_masked_schedule_is_explained():
    schedule = Schedule(cascade=CAUSAL.name, architecture=FPGA.name, tiles={"m0": 4, "p0": 4, "p1": 2}, plan=PLAN)
    found = explain(CAUSAL, FPGA, schedule, SMALL, costs=COSTS[FPGA.name])
    assert found.loads[0].cycles == max(load.cycles for load in found.loads) > 0


def refused(text: str, plan: Plan = PLAN) -> str:
    cascade = parse(text, file="c.ein")
    with pytest.raises(InputError) as caught:
        priced(cascade, SMALL, {"m0": 3, "p0": 3, "p1": 2}, plan)
    return str(caught.value)


RUN = "set masked_tiles: run in the plan, which runs them like all others"


def test_what_stands_in_the_way_of_skipping_is_named():
    counted = str(CAUSAL).replace("RD[p,m1+1] = SLD[p,m1] + SPD[p,m1]", "RD[p,m1+1] = SLD[p,m1] + SPD[p,m1] + 1")
    assert refused(counted) == (
        "'RD' must stay as it is where filters leave no point of a tile along 'm' for that tile to be skipped, but "
        f"this does not follow from its expression; filter it too, or {RUN}"
    )
    unequal = str(CAUSAL).replace("where m1*G*M0+m0*G <= p+G*M-P", "where m1*M0+m0 != p")
    assert refused(unequal) == (
        "a filter must compare by <=, <, >=, >, == for empty tiles to be skipped, but one is 'm1*M0+m0 != p'; " + RUN
    )
    within = str(CAUSAL).replace("where m1*G*M0+m0*G <= p+G*M-P", "where m0 <= p")
    assert refused(within) == (
        "a filter must take m1, m0 as the coordinate of 'm' for empty tiles to be skipped, but one is 'm0 <= p'; " + RUN
    )
    values = str(CAUSAL).replace("m1*G*M0+m0*G <= p+G*M-P", "m1*M0+m0 <= p+e", 1)
    assert refused(values) == (
        "filters must mention two ranks at most for empty tiles to be skipped, but those of cascade "
        f"'attention-1pass-causal' mention m, p, e; {RUN}"
    )


def test_tiles_of_a_rank_that_is_written_out_are_not_skipped():
    text = "cascade c\n  input  Q[p,e]  K[m,e]\n  S[p,m] = Q[p,e] * K[m,e] where m <= p\n"
    assert "that no output has" in refused(text, scores_only())


def scores_only() -> Plan:
    """Return a plan for scores alone."""
    return dataclasses.replace(
        PLAN,
        epoch=(dataclasses.replace(PLAN.epoch[1], slots=({"2d": ("S",)},)),),
        offsets={"S": 0},
        residency={name: PLAN.residency[name] for name in ("Q", "K")} | {"S": Residence(level=Level.STREAM)},
    )
