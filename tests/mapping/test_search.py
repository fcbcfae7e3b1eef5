"""The search: equal to brute force, true to the model, and honest about what it did."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel import spec
from accel.arch import PipelineFill, load_architecture
from accel.cascade import load_cascade
from accel.cost import load_cost_table
from accel.errors import InputError
from accel.schedule import Schedule, load_schedule, load_template
from accel.workload import Workload, read_hugging_face_config
from mapping.bound import bind
from mapping.legal import order_problems, shortfalls
from mapping.model import price, price_tiling
from mapping.search import Limits, Objective, search, space
from mapping.templates import find_plan
from mapping.tiling import Tiling

CASCADE = load_cascade("attention-1pass")
CLOUD = load_architecture("fusemax-cloud")
FPGA = load_architecture("fpga-8x8")
PLAN = load_template("interleaved-1pass").plan
BERT = "examples/models/bert-base-uncased/config.json"
POINT = {"m0": 256, "p0": 256, "p1": 4}


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


@st.composite
def small_problems(draw):
    """Draw a workload and an architecture small enough to price every schedule."""
    side = st.sampled_from([1, 2, 3, 4, 8])
    arrays = {
        "2d": dataclasses.replace(
            FPGA.arrays["2d"], rows=draw(side), columns=draw(side), registers_per_pe=draw(st.integers(6, 16))
        ),
        "1d": dataclasses.replace(FPGA.arrays["1d"], columns=draw(side)),
    }
    architecture = dataclasses.replace(
        FPGA,
        arrays=arrays,
        buffer=dataclasses.replace(FPGA.buffer, size_bits=128 * draw(st.integers(10, 120))),
        dram=dataclasses.replace(FPGA.dram, bandwidth_bits_per_s=draw(st.sampled_from([1e8, 1e9, 1e10, 1e11]))),
        pipeline_fill=draw(st.sampled_from(list(PipelineFill))),
    )
    workload = Workload(
        name="small",
        batch=1,
        heads=draw(st.integers(1, 2)),
        kv_heads=1,
        queries=draw(st.integers(1, 12)),
        keys=draw(st.integers(1, 12)),
        query_key_dim=draw(st.integers(1, 6)),
        value_dim=draw(st.integers(1, 6)),
    )
    return architecture, workload


def value(objective, result):
    return {
        "latency": result.latency_cycles,
        "energy": result.energy_pj,
        "edp": result.energy_pj * result.latency_cycles,
    }[objective]


@settings(max_examples=12)
@given(small_problems(), st.sampled_from(["latency", "energy", "edp"]))
def test_the_best_schedule_is_that_of_brute_force(problem, objective):
    architecture, workload = problem
    best = None
    bound, costs = bind(CASCADE, architecture, PLAN), load_cost_table(architecture.technology)
    for branch in space(bound, workload, {}):
        for tiles in branch.points:
            tiling = Tiling(bound=bound, tiles=tiles, workload=workload)
            if shortfalls(tiling) or list(order_problems(tiling)):
                continue
            result = price_tiling(tiling, costs)
            key = (
                value(objective, result),
                result.latency_cycles,
                result.energy_pj,
                sum(result.occupancy_bits.values()),
                *tiles.values(),
            )
            best = key if best is None else min(best, key)
    if best is None:
        with pytest.raises(InputError, match="no tile sizes of the space make a legal schedule"):
            search(CASCADE, architecture, workload, objective, plan=PLAN, costs=costs)
        return
    found = search(CASCADE, architecture, workload, objective, plan=PLAN, costs=costs)
    assert value(objective, found.result) == best[0]
    assert tuple(found.schedule.tiles.values()) == best[4:]
    assert found.optimal
    assert found.lower_bound_cycles <= found.result.latency_cycles


def test_a_space_of_one_point_prices_like_the_model():
    workload = read_hugging_face_config(BERT).workload(batch=64, length=1024)
    schedule = Schedule(cascade=CASCADE.name, architecture=CLOUD.name, tiles=POINT, plan=PLAN)
    found = search(CASCADE, CLOUD, workload, plan=PLAN, tiles=POINT)
    assert found.result == price(CASCADE, CLOUD, schedule, workload)
    assert (found.points_considered, found.points_priced, found.points_pruned) == (1, 1, 0)


@pytest.mark.parametrize("length", [1 << power for power in range(10, 21, 2)])
def test_the_schedule_found_beats_the_published_binding(length):
    workload = read_hugging_face_config(BERT).workload(batch=64, length=length)
    found = search(CASCADE, CLOUD, workload, plan=PLAN)
    tiles_of_256 = 64 * 12 * (length // 256) ** 2
    binding_cycles = tiles_of_256 * (138 + 64 / (length // 256))
    assert found.result.latency_cycles < binding_cycles
    assert 137 * tiles_of_256 == found.floor_cycles
    assert 0 <= found.result.latency_cycles / found.floor_cycles - 1 < 0.004


def test_the_same_search_twice_gives_the_same_answer():
    workload = read_hugging_face_config(BERT).workload(batch=2, length=77)
    limits = Limits(points=10)
    assert search(CASCADE, FPGA, workload, limits=limits) == search(CASCADE, FPGA, workload, limits=limits)


def test_every_point_is_accounted_for():
    found = search(CASCADE, CLOUD, read_hugging_face_config(BERT).workload(batch=64, length=65536), plan=PLAN)
    assert found.points_considered == found.points_priced + found.points_pruned + found.points_illegal
    assert found.points_priced < 100 < found.points_pruned


def test_an_objective_is_minimised_even_at_the_cost_of_another():
    workload = Workload(name="w", batch=1, heads=1, kv_heads=1, queries=96, keys=96, query_key_dim=64, value_dim=64)
    slow = dataclasses.replace(FPGA, dram=dataclasses.replace(FPGA.dram, bandwidth_bits_per_s=1e8))
    by = {objective: search(CASCADE, slow, workload, objective, plan=PLAN).result for objective in Objective}
    assert by[Objective.LATENCY].latency_cycles == min(result.latency_cycles for result in by.values())
    assert by[Objective.ENERGY].energy_pj == min(result.energy_pj for result in by.values())


def test_the_command_prints_json_with_a_schedule_that_can_be_fed_back(einrtl, tmp_path):
    saved = tmp_path / "schedule.yaml"
    run = einrtl("map", BERT, "--batch", "64", "--length", "1024", "--json", "--save", saved)
    assert run.code == 0
    answer = json.loads(run.out)
    assert set(answer) >= {
        "latency_cycles", "energy_pj", "lower_bound_cycles", "gap", "optimal", "points_evaluated", "points_pruned",
        "wall_time_s", "schedule",
    }  # fmt: skip
    schedule = load_schedule(saved)
    assert spec.loads(Schedule, json.dumps(answer["schedule"])) == schedule
    workload = read_hugging_face_config(BERT).workload(batch=64, length=1024)
    assert price(CASCADE, CLOUD, schedule, workload).latency_cycles == answer["latency_cycles"]


def test_the_command_shows_tables_to_people(einrtl):
    run = einrtl(
        "map", BERT, "--arch", "fpga-8x8", "--length", "64", "--tile", "m0=8", "--template", "interleaved-1pass"
    )
    assert run.code == 0
    for words in (
        "limited by",
        "use of array 2d",
        "Einsums",
        "divide",
        "no schedule of this space is better",
        "as published",
    ):
        assert words in run.out


@pytest.mark.parametrize(
    ("model", "arch", "length"),
    [
        ("all-MiniLM-L6-v2", "fpga-8x8", 128),
        ("all-MiniLM-L6-v2", "fusemax-cloud", 128),
        ("gpt2", "fpga-8x8", 1024),
        ("vit-base-patch16-224", "fpga-8x8", None),
        ("Meta-Llama-3-8B", "fusemax-cloud", 8192),
    ],
)
def test_every_shipped_model_is_mapped(model, arch, length):
    workload = read_hugging_face_config(f"examples/models/{model}/config.json").workload(length=length)
    found = search(CASCADE, load_architecture(arch), workload)
    assert 0 <= found.gap < 0.6
    assert found.result.energy_pj > 0


@pytest.mark.parametrize(
    "name", ["edge", "flat-cloud", "flat-cloud-split-exp", "fpga-8x8", "fusemax-cloud", "tpu-like"]
)
def test_every_packaged_architecture_can_be_mapped_by_a_template_that_it_can_run(name):
    workload = Workload(name="w", batch=1, heads=2, kv_heads=1, queries=300, keys=300, query_key_dim=32, value_dim=48)
    architecture = load_architecture(name)
    found = search(CASCADE, architecture, workload, plan=find_plan(CASCADE, architecture))
    assert found.result.latency_cycles > 0
    on_matrix = {each.einsum for each in found.result.einsums if each.array == "2d"}
    assert on_matrix == ({"BQK", "SLNV"} if "max" not in architecture.arrays["2d"].operators else on_matrix | {"SLN"})
