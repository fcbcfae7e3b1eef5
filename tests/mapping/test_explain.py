"""What limits a schedule and what a change buys: each number is the model's own price of the change."""

import dataclasses
import json

import pytest

from accel import spec
from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.schedule import Schedule, load_template
from accel.workload import Workload
from mapping.explain import explain
from mapping.model import price
from mapping.search import Objective, search

CASCADE = load_cascade("attention-1pass")
CLOUD = load_architecture("fusemax-cloud")
FPGA = load_architecture("fpga-8x8")
PLAN = load_template("interleaved-1pass").plan


def workload(length=1024, dim=64):
    return Workload(
        name="w", batch=1, heads=2, kv_heads=2, queries=length, keys=length, query_key_dim=dim, value_dim=dim
    )


def schedule(architecture, **tiles):
    return Schedule(cascade=CASCADE.name, architecture=architecture.name, tiles=tiles, plan=PLAN)


def explained(architecture=CLOUD, given=None, objective="latency", **tiles):
    tiles = tiles or {"m0": 256, "p0": 256, "p1": 4}
    return explain(CASCADE, architecture, schedule(architecture, **tiles), given or workload(), objective)


def change(found, what):
    return {each.what: each for each in found.changes}[what]


def test_a_change_costs_what_the_model_says_of_the_changed_machine():
    found = explained()
    dram = dataclasses.replace(CLOUD.dram, bandwidth_bits_per_s=1.1 * CLOUD.dram.bandwidth_bits_per_s)
    array = CLOUD.arrays["1d"]
    wider = {**CLOUD.arrays, "1d": dataclasses.replace(array, columns=257)}
    faster = dataclasses.replace(array.operators["exp"], cycles=5)
    quick = {**CLOUD.arrays, "1d": dataclasses.replace(array, operators={**array.operators, "exp": faster})}
    buffer = dataclasses.replace(CLOUD.buffer, size_bits=2 * CLOUD.buffer.size_bits)
    machines = {
        "dram: 10 % more bandwidth": dataclasses.replace(CLOUD, dram=dram),
        "1d: one lane more": dataclasses.replace(CLOUD, arrays=wider),
        "1d: exp one cycle faster": dataclasses.replace(CLOUD, arrays=quick),
        "buffer: twice the size": dataclasses.replace(CLOUD, buffer=buffer),
    }
    for what, machine in machines.items():
        same = price(CASCADE, machine, schedule(CLOUD, m0=256, p0=256, p1=4), workload())
        assert change(found, what).result == same
        best = search(CASCADE, machine, workload(), plan=PLAN).result
        assert change(found, what).searched.latency_cycles == min(best.latency_cycles, same.latency_cycles)


def test_another_key_tile_for_each_update_relieves_the_vector_array():
    found = explained()
    assert found.result.limit == "1d"
    assert found.loads[0].resource == "1d"
    assert found.loads[0].part == 1.0
    wide = change(found, "tile m0 = 512 instead of 256").result
    # 2 x (E + 1) + 1 + 16 + 2 x F cycles for two tiles against 138 + F / M1 with M1 = 4 for each.
    assert wide.latency_cycles / found.result.latency_cycles == (275 / 2) / 154
    assert found.changes[0].best(Objective.LATENCY).latency_cycles <= wide.latency_cycles


def test_one_array_waits_for_the_other_so_that_both_must_get_faster():
    found = explained()
    base = found.result.latency_cycles
    for array in ("2d", "1d"):
        assert change(found, f"{array}: exp one cycle faster").result.latency_cycles == base
    assert change(found, "2d and 1d: exp one cycle faster").result.latency_cycles < base


def test_the_slots_say_which_array_the_others_wait_for():
    found = explained()
    first = found.slots[0]
    # BQK takes E cycles and LM 1; RNV takes F, RD 1, and AV F once for 4 key tiles.
    assert dict(first.cycles) == {"2d": 65.0, "1d": 64 + 1 + 64 / 4}
    assert first.longest == "1d"
    assert first.einsums["1d"] == ("RNV", "RD", "AV")
    longest = sum(max(each.cycles.values()) for each in found.slots)
    assert longest * found.result.epochs == found.result.compute_cycles


def test_bandwidth_helps_where_dram_limits():
    decode = Workload(
        name="decode", batch=1, heads=32, kv_heads=8, queries=1, keys=65536, query_key_dim=128, value_dim=128
    )
    found = explained(given=decode, m0=512, p0=256, p1=1)
    assert found.result.limit == "dram"
    faster = change(found, "dram: 10 % more bandwidth").result
    assert faster.memory_cycles == pytest.approx(found.result.memory_cycles / 1.1)
    assert faster.latency_cycles == max(faster.memory_cycles, found.result.compute_cycles) < found.result.latency_cycles
    assert change(found, "1d: one lane more").result.latency_cycles == found.result.latency_cycles


def test_what_does_not_fit_says_why():
    found = explained(FPGA, workload(64, 32), m0=32, p0=8, p1=3)
    refused = change(found, "tile m0 = 40 instead of 32")
    assert refused.result is None
    assert refused.refused.startswith("a PE of array '2d' must hold 15 registers (BQK 10, SLN 5), but has 13 for them")
    assert found.changes[-1].result is None


@pytest.mark.parametrize("objective", [each.value for each in Objective])
def test_no_change_of_the_machine_makes_the_best_tiles_worse(objective):
    found = explained(FPGA, workload(96, 32), objective, m0=8, p0=8, p1=1)

    def value(result):
        energy, latency = result.energy_pj, result.latency_cycles
        return {"latency": latency, "energy": energy, "edp": energy * latency}[objective]

    for each in found.changes:
        if each.searched is not None:
            assert value(each.searched) <= value(found.result)
    values = [value(each.best(Objective(objective))) for each in found.changes if each.best(Objective(objective))]
    assert values == sorted(values)


def test_the_same_question_gets_the_same_answer():
    assert explained(FPGA, workload(64, 16), m0=8, p0=8, p1=2) == explained(FPGA, workload(64, 16), m0=8, p0=8, p1=2)


@pytest.fixture
def saved(tmp_path):
    """Return a saved schedule and the configuration that it was made for."""
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "model_type": "bert",
                "hidden_size": 32,
                "num_attention_heads": 2,
                "num_hidden_layers": 1,
                "intermediate_size": 64,
                "max_position_embeddings": 64,
            }
        )
    )
    path = tmp_path / "schedule.yaml"
    path.write_text(spec.dump(schedule(FPGA, m0=8, p0=8, p1=2)))
    return path, config


def test_the_command_prints_json_of_the_same_explanation(einrtl, saved):
    finished = einrtl("explain", *saved, "--json")
    assert (finished.code, finished.err) == (0, "")
    values = json.loads(finished.out)
    assert values["changes"][0]["change"]
    assert {each["resource"] for each in values["loads"]} == {"dram", "2d", "1d"}
    for each in values["changes"]:
        assert (each["same_tiles"] is None) == (each["refused"] is not None)
        if each["same_tiles"] is not None:
            ratio = each["same_tiles"]["latency_cycles"] / values["latency_cycles"]
            assert each["same_tiles"]["latency_ratio"] == ratio
    assert einrtl("explain", *saved, "--json").out == finished.out


def test_the_command_prints_tables(einrtl, saved):
    finished = einrtl("explain", *saved, "--objective", "energy")
    assert (finished.code, finished.err) == (0, "")
    for text in ("What a change buys", "dram: 10 % more bandwidth", "1d: one lane more", "Limited by"):
        assert text in finished.out
