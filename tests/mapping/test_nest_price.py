"""Prices of nests: breakdown by unit, tensor and Einsum, inner levels, ports, explanations and the commands."""

import csv
import dataclasses
import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel import spec
from accel.arch import InnerBuffer
from accel.cost import ActionCost, load_cost_table
from accel.nest import LevelStore, NestSchedule, Store, TensorStore, load_nest
from accel.nest_result import NestResult
from mapping.explain_nest import explain_nest
from mapping.export import ACTION_HEADS, actions_csv
from mapping.nest import NestModel
from mapping.nest_price import price_nest
from tests.mapping.test_nest import APART, COSTS, FLAT, IN_DRAM, attention, products, slow_moves, slow_tiles

NEST = Path(__file__).parents[2] / "examples" / "nests" / "unfused-3pass.yaml"
BERT = NEST.parents[1] / "models" / "bert-base-uncased" / "config.json"
PAD = InnerBuffer(size_bits=2**30, row_bits=16, component="pad", array="2d")
PADDED_COSTS = dataclasses.replace(
    COSTS,
    components={
        **COSTS.components,
        "pad": {
            "read": ActionCost(energy_pj=0.5, source="test", per_bits=16),
            "write": ActionCost(energy_pj=0.25, source="test", per_bits=16),
        },
    },
)


def priced(**changes):
    return price_nest(attention(stages=APART, scores=IN_DRAM, **changes), instances=3, costs=COSTS)


def padded(model, **within):
    """Return the model with tensors that pass through a level ahead of the 2D array."""
    tensors = {
        name: dataclasses.replace(store, levels={"pad": LevelStore(within=within[name])}) if name in within else store
        for name, store in model.nest.tensors.items()
    }
    architecture = dataclasses.replace(model.architecture, levels={"pad": PAD})
    return dataclasses.replace(model, architecture=architecture, nest=dataclasses.replace(model.nest, tensors=tensors))


def test_actions_add_up_to_traffic_energy_and_points():
    result = priced()
    words = sum(each.count for each in result.actions if each.unit == "dram")
    assert 8 * words == pytest.approx(result.traffic_bytes, rel=1e-12)
    assert math.fsum(result.energy_pj_by_unit.values()) == pytest.approx(result.energy_pj, rel=1e-12)
    macs = {each.einsum: each.count for each in result.actions if each.unit == "2d" and each.action == "mac"}
    assert macs == {"QK": 3 * 512 * 1024 * 64, "AV": 3 * 512 * 1024 * 64}
    assert {(each.unit, each.tensor, each.einsum) for each in result.actions if each.unit == "dram"} >= {
        ("dram", "Q", "QK"),
        ("dram", "QK", "QK"),
        ("dram", "QK", "GM"),
        ("dram", "A", "AV"),
    }
    for each in result.actions:
        assert each.energy_pj == pytest.approx(
            each.count
            * COSTS.energy_pj(
                each.component, each.action, bits={"dram": 64, "buffer": FLAT.buffer.row_bits}.get(each.unit)
            ),
            rel=1e-12,
        )


def test_a_stage_names_what_it_waits_for():
    result = priced()
    for stage in result.stages:
        assert stage.loads[stage.limit] == stage.cycles == max(stage.loads.values())
    slow = dataclasses.replace(FLAT, dram=dataclasses.replace(FLAT.dram, bandwidth_bits_per_s=1e9))
    model = dataclasses.replace(attention(stages=APART, scores=IN_DRAM), architecture=slow)
    assert {stage.limit for stage in price_nest(model, instances=1, costs=COSTS).stages} == {"dram"}


def test_without_overlap_memory_and_compute_add_up():
    model = attention(stages=APART, scores=IN_DRAM)
    apart = dataclasses.replace(model, architecture=dataclasses.replace(FLAT, memory_overlaps_compute=False))
    for stage in price_nest(apart, instances=1, costs=COSTS).stages:
        assert stage.cycles == stage.memory_cycles + max(stage.busy_cycles.values())


def test_a_result_survives_json_and_csv():
    result = priced()
    assert NestResult.from_dict(json.loads(json.dumps(result.as_dict()))) == result
    rows = list(csv.DictReader(io.StringIO(actions_csv(result))))
    assert tuple(rows[0]) == ACTION_HEADS
    assert [float(row["count"]) for row in rows] == [each.count for each in result.actions]
    assert math.fsum(float(row["energy_pj"]) for row in rows) == result.energy_pj


@settings(max_examples=150)
@given(products(), st.data())
def test_a_level_takes_in_what_changes_and_hands_on_what_the_array_moves(model, data):
    loops = model.nest.einsums["Y"].loops
    within = {name: data.draw(st.sampled_from([None, *loops])) for name in "AVY"}
    small = padded(
        dataclasses.replace(
            model,
            nest=dataclasses.replace(
                model.nest,
                tensors={**dict.fromkeys("AV", TensorStore(store=Store.DRAM)), "Y": TensorStore(store=Store.DRAM)},
            ),
        ),
        **within,
    )
    result = price_nest(small, instances=1, costs=PADDED_COSTS)
    ranks = {"A": ("p", "m"), "V": ("m", "f"), "Y": ("p", "f")}
    for name in "AVY":
        cut = loops.index(within[name]) + 1 if within[name] else 0
        brought = slow_moves(slow_tiles(small.nest, loops[:cut], small.sizes), ranks[name], True)
        streamed = small.moved("Y", ranks[name])
        once = math.prod(small.sizes[rank.upper()] for rank in ranks[name])
        if name == "Y":
            assert result.count("pad", "write", "Y") == streamed + brought - once
            assert result.count("pad", "read", "Y") == streamed - once + brought
            assert result.count("dram", "write", "Y") * 4 == brought
            assert result.count("dram", "read", "Y") * 4 == brought - once
        else:
            assert result.count("pad", "read", name) == streamed
            assert result.count("pad", "write", name) == brought == result.count("dram", "read", name) * 4
            assert once <= brought
    assert result.energy_pj_by_unit["pad"] == pytest.approx(
        0.5 * result.count("pad", "read") + 0.25 * result.count("pad", "write"), rel=1e-12
    )


def test_a_level_ahead_of_one_array_is_not_passed_by_readers_on_another():
    model = attention(stages=APART, scores=IN_DRAM)
    result = price_nest(padded(model, K="p1", QK="m1"), instances=1, costs=PADDED_COSTS)
    users = {(each.tensor, each.einsum) for each in result.actions if each.unit == "pad"}
    assert users == {("K", "QK"), ("QK", "QK")}


@pytest.mark.parametrize(("banks", "ports", "rate"), [(None, 1, 1), (4, 1, 4), (4, 2, 8)])
def test_stated_ports_bound_the_cycles_of_a_stage(banks, ports, rate):
    model = padded(attention(stages=APART, scores=IN_DRAM), K="p1", Q="p1")
    level = dataclasses.replace(PAD, banks=banks, ports=ports)
    ported = dataclasses.replace(model.architecture, levels={"pad": level})
    result = price_nest(dataclasses.replace(model, architecture=ported), instances=1, costs=PADDED_COSTS)
    free = price_nest(model, instances=1, costs=PADDED_COSTS)
    accesses = sum(each.count for each in result.actions if each.unit == "pad")
    assert result.stages[0].buffer_cycles == {"pad": accesses / rate}
    assert result.stages[0].cycles == max(free.stages[0].cycles, accesses / rate)
    assert free.stages[0].buffer_cycles == {}
    assert result.energy_pj == free.energy_pj


def test_ports_of_the_buffer_bound_a_stage_too():
    model = attention(stages=APART, scores=IN_DRAM)
    slow = dataclasses.replace(FLAT, buffer=dataclasses.replace(FLAT.buffer, ports=1))
    result = price_nest(dataclasses.replace(model, architecture=slow), instances=1, costs=COSTS)
    rows = sum(each.count for each in result.actions if each.unit == "buffer")
    assert sum(stage.buffer_cycles["buffer"] for stage in result.stages) == pytest.approx(rows, rel=1e-12)


def test_what_a_level_keeps_is_counted_in_whole_rows():
    wide = dataclasses.replace(PAD, row_bits=4096)
    model = padded(attention(stages=APART, scores=IN_DRAM), K="m1", Q="p1")
    model = dataclasses.replace(model, architecture=dataclasses.replace(model.architecture, levels={"pad": wide}))
    assert dict(model.fullest_in_levels["pad"]) == {"Q": 256 * 64 * 16, "K": 256 * 64 * 16}
    odd = dataclasses.replace(model, sizes={**model.sizes, "E": 1, "P": 3, "M": 3})
    assert dict(odd.fullest_in_levels["pad"]) == {"Q": 4096, "K": 4096}


def test_each_change_costs_what_the_model_says_of_the_changed_machine():
    model = attention(stages=APART, scores=IN_DRAM)
    found = explain_nest(model, instances=3, costs=COSTS)
    assert found.result == priced()
    changes = {each.what: each for each in found.changes}
    array = FLAT.arrays["1d"]
    wider = dataclasses.replace(FLAT, arrays={**FLAT.arrays, "1d": dataclasses.replace(array, columns=257)})
    after = price_nest(dataclasses.replace(model, architecture=wider), instances=3, costs=COSTS)
    assert changes["1d: one lane more"].result == after
    assert changes["loop p1 of 512 instead of 256"].result.stages[0].busy_cycles["2d"] > 0
    latencies = [each.result.latency_cycles for each in found.changes if each.result]
    assert latencies == sorted(latencies)
    assert all(each.refused for each in found.changes if each.result is None)


def test_levels_and_their_ports_are_among_the_changes():
    model = padded(attention(stages=APART, scores=IN_DRAM), K="m1")
    ported = dataclasses.replace(model.architecture, levels={"pad": dataclasses.replace(PAD, ports=1)})
    changes = explain_nest(dataclasses.replace(model, architecture=ported), instances=1, costs=PADDED_COSTS).changes
    found = {each.what: each.result for each in changes}
    assert found["pad: one port more"].latency_cycles <= found["pad: twice the size"].latency_cycles


def test_a_nest_file_survives_yaml():
    saved = load_nest(NEST)
    assert spec.loads(NestSchedule, spec.dump(saved)) == saved


def test_price_and_explain_take_a_nest_file(einrtl, tmp_path):
    table = tmp_path / "actions.csv"
    finished = einrtl("price", NEST, BERT, "--batch", "2", "--json")
    assert (finished.code, finished.err) == (0, "")
    result = NestResult.from_dict(json.loads(finished.out))
    assert (result.instances, result.sizes["P"]) == (24, 512)
    finished = einrtl("price", NEST, BERT, "--csv", table)
    assert finished.code == 0
    for text in ("Nest of attention-3pass on flat-cloud", "Stages", "Actions", "Accounting: as published"):
        assert text in finished.out
    assert table.read_text().startswith("unit,component,action,tensor,einsum,count,energy_pj")
    finished = einrtl("explain", NEST, BERT)
    assert finished.code == 0
    assert "What a change buys" in finished.out and "1d: one lane more" in finished.out
    values = json.loads(einrtl("explain", NEST, BERT, "--json").out)
    assert [stage["einsums"] for stage in values["stages"]] == [["QK"], ["GM", "SN", "SD", "A"], ["AV"]]


def test_the_result_of_a_file_is_that_of_the_library():
    saved = load_nest(NEST)
    model = NestModel(
        cascade=attention(stages=APART, scores=IN_DRAM).cascade,
        architecture=FLAT,
        nest=saved.nest,
        sizes={"P": 512, "M": 512, "E": 64, "F": 64},
    )
    assert price_nest(model, instances=12) == price_nest(model, instances=12, costs=load_cost_table(FLAT.technology))
