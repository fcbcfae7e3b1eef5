"""Inner levels of an architecture in the price of a plan: what passes through, what stays, ports, and capacity."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pytest

from accel import spec
from accel.arch import InnerBuffer, load_architecture
from accel.cascade import load_cascade
from accel.errors import InputError
from accel.nest import EinsumNest, Nest, Store, TensorStore, TileLoop
from accel.notation import parse
from accel.result import Result
from accel.schedule import Axis, Group, Level, LevelStore, Plan, Residence, Schedule, load_template
from accel.workload import Workload
from mapping.explain import explain
from mapping.model import price
from mapping.nest import NestModel
from mapping.nest_price import price_nest
from mapping.search import search

ATTENTION = load_cascade("attention-1pass")
BUFFERS, EDGE = load_architecture("edge-operand-buffers"), load_architecture("edge")
TILES = {"m0": 32, "p0": 32, "p1": 4}
WORK = Workload(name="small", batch=2, heads=3, kv_heads=3, queries=256, keys=512, query_key_dim=64, value_dim=32)
INSTANCES, GROUPS, KEY_TILES, QUERY_TILES = 6, 2, 16, 8
HEAD = 32 * 64 * 16 // 512
"""Rows of one tile of Q or of K; those of V are half as many."""


def schedule(architecture=BUFFERS, *, template="interleaved-1pass", **levels):
    """Return the packaged plan, with inputs kept in levels: ``K={"operands": "m1"}``."""
    plan = load_template(template).plan
    homes = dict(plan.residency)
    for tensor, kept in levels.items():
        stores = {level: LevelStore(within=within) for level, within in kept.items()}
        homes[tensor] = dataclasses.replace(homes[tensor], levels=stores)
    return Schedule(
        cascade="attention-1pass",
        architecture=architecture.name,
        tiles=TILES,
        plan=dataclasses.replace(plan, residency=homes),
    )


def priced(architecture=BUFFERS, work=WORK, **options) -> Result:
    return price(ATTENTION, architecture, schedule(architecture, **options), work)


def changed(level: str, **fields):
    levels = {**BUFFERS.levels, level: dataclasses.replace(BUFFERS.levels[level], **fields)}
    return dataclasses.replace(BUFFERS, levels=levels)


def rows(result, unit, tensor):
    return result.count(unit, "read", tensor), result.count(unit, "write", tensor)


def test_what_the_buffer_keeps_passes_through_the_level_of_each_array_tile_by_tile():
    result = priced()
    tiles = INSTANCES * KEY_TILES * QUERY_TILES
    for tensor, each in (("Q", HEAD), ("K", HEAD), ("V", HEAD // 2)):
        assert rows(result, "operands", tensor) == (tiles * each, tiles * each)
        assert result.count("buffer", "read", tensor) == tiles * each
    # A running value is read by a step and written by it, and each way passes the level once.
    assert rows(result, "accumulators", "RNV")[0] == (2 * tiles + INSTANCES * QUERY_TILES) * 32
    assert rows(result, "accumulators", "RNV")[0] == rows(result, "accumulators", "RNV")[1]
    assert rows(result, "accumulators", "K") == rows(result, "operands", "RNV") == (0, 0)


def test_an_input_kept_in_a_level_comes_from_the_buffer_where_it_changes():
    result = priced(K={"operands": "m1"}, Q={"operands": "p2"})
    tiles = INSTANCES * KEY_TILES * QUERY_TILES
    changes = INSTANCES * KEY_TILES * GROUPS
    assert rows(result, "operands", "K") == (tiles * HEAD, changes * HEAD)
    assert result.count("buffer", "read", "K") == changes * HEAD
    assert rows(result, "operands", "Q") == (tiles * HEAD, INSTANCES * QUERY_TILES * HEAD)
    assert result.level_occupancy_bits["operands"] == {
        "Q": 4 * HEAD * 512,
        "K": HEAD * 512,
        "V": HEAD // 2 * 512,
    }
    assert result.energy_pj < priced().energy_pj


def test_levels_that_keep_nothing_only_add_to_a_price():
    plain, inner = priced(EDGE), priced()
    for unit in ("dram", "buffer", "2d", "1d"):
        for action in ("read", "write", "multiply", "add"):
            assert inner.count(unit, action) == plain.count(unit, action)
    assert inner.compute_cycles == plain.compute_cycles
    assert inner.latency_cycles >= plain.latency_cycles
    assert inner.energy_pj > plain.energy_pj
    added = sum(energy for unit, energy in inner.energy_pj_by_unit.items() if unit in BUFFERS.levels)
    assert inner.energy_pj == pytest.approx(plain.energy_pj + added, rel=1e-12)


def test_without_levels_and_ports_a_result_mentions_neither():
    result = priced(EDGE)
    assert (result.level_occupancy_bits, result.buffer_cycles) == ({}, {})


def test_ports_and_banks_bound_latency_by_accesses():
    narrow = changed("operands", banks=1)
    result = priced(narrow)
    accesses = result.count("operands", "read") + result.count("operands", "write")
    assert result.buffer_cycles["operands"] == accesses == result.latency_cycles > result.compute_cycles
    assert result.limit == "operands"
    assert priced(changed("operands", banks=1, ports=2)).buffer_cycles["operands"] == accesses / 2
    assert priced(changed("operands", ports=None)).buffer_cycles.keys() == {"accumulators"}
    apart = dataclasses.replace(narrow, memory_overlaps_compute=False)
    assert priced(apart).latency_cycles == accesses + result.memory_cycles


def test_the_global_buffer_is_bound_by_its_ports_too():
    ported = dataclasses.replace(EDGE, buffer=dataclasses.replace(EDGE.buffer, ports=1))
    result = priced(ported)
    assert result.buffer_cycles == {"buffer": result.count("buffer", "read") + result.count("buffer", "write")}


def test_partial_rows_count_whole_at_the_width_of_each_level():
    odd = changed("operands", row_bits=1024, banks=1)
    work = dataclasses.replace(WORK, batch=1, heads=1, kv_heads=1, queries=32, keys=33, query_key_dim=33)
    result = priced(odd, work)
    full, last = -(-32 * 33 * 16 // 1024), -(-1 * 33 * 16 // 1024)
    assert rows(result, "operands", "K") == (full + last, full + last)
    assert result.count("buffer", "read", "K") == -(-32 * 33 * 16 // 512) + -(-33 * 16 // 512)


def test_levels_behind_each_other_take_in_what_the_inner_one_asks_for():
    outer = InnerBuffer(size_bits=2**20, row_bits=512, component="sram-8KiB")
    both = dataclasses.replace(BUFFERS, levels={"outer": outer, **BUFFERS.levels})
    tiles, changes = INSTANCES * KEY_TILES * QUERY_TILES, INSTANCES * KEY_TILES * GROUPS
    result = priced(both, K={"operands": "m1"}, V={"outer": "m1"})
    assert rows(result, "operands", "K") == (tiles * HEAD, changes * HEAD)
    assert rows(result, "outer", "K") == (changes * HEAD, changes * HEAD)
    assert rows(result, "operands", "V") == (tiles * HEAD // 2, tiles * HEAD // 2)
    assert rows(result, "outer", "V") == (tiles * HEAD // 2, changes * HEAD // 2)
    assert result.count("buffer", "read", "V") == changes * HEAD // 2


PROJECTION = parse("cascade projection\n  input X[p,e] W[e,f]\n  Y[p,f] = X[p,e] * W[e,f]\n", file="projection.ein")


@pytest.mark.parametrize("kept", [None, "p1"])
def test_a_plan_and_a_nest_that_do_the_same_move_the_same_through_a_level(kept):
    work = Workload(name="w", batch=1, heads=1, kv_heads=1, queries=96, keys=1, query_key_dim=64, value_dim=32)
    levels = {"operands": LevelStore(within=kept)}
    plan = Plan(
        splits={"p": ("p1", "p0")},
        loops=("p1",),
        axes={"p0": Axis.ROWS},
        epoch=(Group(slots=({"2d": ("Y",)},)),),
        offsets={"Y": 0},
        residency={
            "X": Residence(level=Level.BUFFER, within="p1"),
            "W": Residence(level=Level.BUFFER, within="instance", levels=levels),
            "Y": Residence(level=Level.BUFFER, within="p1"),
        },
    )
    pipeline = price(
        PROJECTION,
        BUFFERS,
        Schedule(cascade="projection", architecture=BUFFERS.name, tiles={"p0": 32}, plan=plan),
        work,
    )
    through = {"operands": LevelStore(within="p1")}
    nest = Nest(
        stages=(("Y",),),
        loops={"p1": TileLoop(rank="p", size=32)},
        einsums={"Y": EinsumNest(array="2d", loops=("p1",), axes={"p": Axis.ROWS})},
        tensors={
            "X": TensorStore(store=Store.DRAM, staged=True, within="p1", levels=through),
            "W": TensorStore(store=Store.DRAM, staged=True, levels=levels),
            "Y": TensorStore(store=Store.DRAM, staged=True, within="p1", levels=through),
        },
    )
    model = NestModel(cascade=PROJECTION, architecture=BUFFERS, nest=nest, sizes=work.sizes)
    stages = price_nest(model, instances=work.instances)
    for tensor in ("X", "W", "Y"):
        for unit in ("operands", "buffer"):
            for action in ("read", "write"):
                if (unit, action, tensor) != ("buffer", "read", "Y"):  # a nest charges no read of a staged output
                    assert pipeline.count(unit, action, tensor) == stages.count(unit, action, tensor) > 0


def test_explain_names_the_ports_that_limit_and_what_one_more_buys():
    work = dataclasses.replace(WORK, batch=1, heads=1, kv_heads=1, queries=64, keys=64, query_key_dim=32)
    found = explain(ATTENTION, changed("operands", banks=1), schedule(), work)
    assert found.loads[0].resource == "operands" == found.result.limit
    results = {each.what: each.result for each in found.changes}
    for what in ("operands: one port more", "operands: 2 banks instead of 1", "K kept in operands within m1"):
        assert results[what].latency_cycles < found.result.latency_cycles
    assert results["accumulators: one port more"].latency_cycles == found.result.latency_cycles
    assert results["operands: twice the size"].latency_cycles == found.result.latency_cycles


def test_a_result_and_a_schedule_with_levels_survive_writing():
    result = priced(K={"operands": "m1"})
    assert Result.from_dict(json.loads(json.dumps(result.as_dict()))) == result
    assert spec.loads(Schedule, spec.dump(result.schedule)) == result.schedule


def test_the_commands_show_levels_and_ports(einrtl, tmp_path):
    saved = tmp_path / "schedule.yaml"
    saved.write_text(spec.dump(schedule()), encoding="utf-8")
    config = "examples/models/all-MiniLM-L6-v2/config.json"
    done = einrtl("price", str(saved), config, "--length", "256")
    assert done.code == 0, done.err
    assert "Inner levels" in done.out
    assert "Ports of memories on chip" in done.out
    narrow = tmp_path / "narrow.yaml"
    narrow.write_text(spec.dump(changed("operands", banks=1)), encoding="utf-8")
    done = einrtl("price", str(saved), config, "--length", "256", "--arch", str(narrow))
    assert "the ports of operands: its accesses take" in done.out
    shown = json.loads(einrtl("price", str(saved), config, "--length", "256", "--arch", str(narrow), "--json").out)
    assert shown["limit"] == "operands"
    assert shown["buffer_cycles"]["operands"] == shown["latency_cycles"]


def test_the_search_over_tile_sizes_is_exact_where_levels_and_ports_bind():
    small = dataclasses.replace(BUFFERS.levels["operands"], size_bits=40 * 512, banks=1)
    narrow = dataclasses.replace(BUFFERS, levels={**BUFFERS.levels, "operands": small})
    work = dataclasses.replace(WORK, batch=1, heads=1, kv_heads=1, queries=32, keys=64, query_key_dim=16, value_dim=16)
    plan = schedule(K={"operands": "m1"}).plan
    found = {each: search(ATTENTION, narrow, work, each, plan=plan, tiles={"p1": 1}) for each in ("latency", "energy")}
    results, refused = [], 0
    for sizes in itertools.product(*found["latency"].space.values()):
        tiles = dict(zip(found["latency"].space, sizes, strict=True))
        given = Schedule(cascade=ATTENTION.name, architecture=narrow.name, tiles=tiles, plan=plan)
        try:
            results.append(price(ATTENTION, narrow, given, work))
        except InputError as error:
            refused += "level 'operands'" in str(error)
    assert found["latency"].value == min(each.latency_cycles for each in results)
    assert found["energy"].value == min(each.energy_pj for each in results)
    assert refused > 0
    assert "operands" in {each.limit for each in results}
