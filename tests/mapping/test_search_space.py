"""The search over the whole space: equal to trying all of it, better than by hand, and honest about what it proved."""

import dataclasses
import itertools
import json

import numpy as np
import pytest

from accel import spec
from accel.arch import Operator, PipelineFill, load_architecture
from accel.cascade import load_cascade
from accel.cost import load_cost_table
from accel.errors import InputError
from accel.notation import parse
from accel.schedule import Schedule, load_template, template_names
from accel.workload import Workload, read_hugging_face_config
from mapping.bound import bind
from mapping.derive import derive
from mapping.legal import problems
from mapping.model import price, price_tiling
from mapping.search import Limits, Objective, front, map_space, search
from mapping.search.form import Form, Pipeline
from mapping.search.mapspace import MapSpace
from mapping.search.node import Node, References
from mapping.search.sizes import sizes_along
from mapping.templates import find_plan
from mapping.tiling import Tiling
from sim.events import differences, execute, random_inputs

CASCADE = load_cascade("attention-1pass")
CLOUD = load_architecture("fusemax-cloud")
FPGA = load_architecture("fpga-8x8")
BERT = "examples/models/bert-base-uncased/config.json"
ALL = tuple(Limits(points=None, nodes=None, visits=None, pipelines=None, stages=each, turns=2) for each in (1, 2))
STAGES = (((0, 0, 0),), ((0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)))
MODELS = {"BERT": (12, 64), "TrXL": (16, 64), "T5": (8, 64), "XLM": (16, 128)}
SUM = """
  input  X[p,m]
  S[p,m] = X[p,m] * X[p,m]
  W[p,m] = exp(S[p,m])
  O[p]   = W[p,m]
"""
SMALL = (
    parse("cascade sum" + SUM),
    parse("cascade masked-sum" + SUM.replace("exp(S[p,m])", "exp(S[p,m]) where m <= p")),
    parse("cascade product-sum" + SUM.replace("X[p,m] * X[p,m]", "Q[p] * K[m]").replace("X[p,m]", "Q[p] K[m]")),
    parse(
        """
cascade two-passes
  input  X[p,m]
  S[p,m] = X[p,m] * X[p,m]
  G[p]   = S[p,m]
  O[p]   = max(S[p,m], G[p])
"""
    ),
)


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


def small_problem(seed):
    """Return a random architecture on which each Einsum has a choice or two, and a workload of a few tiles."""
    draw = np.random.default_rng(seed)
    matrix, vector = FPGA.arrays["2d"].operators, FPGA.arrays["1d"].operators
    where = draw.random()
    slow = Operator(cycles=int(draw.integers(1, 4)), actions={"multiply": 1, "add": 1})
    arrays = {
        "2d": dataclasses.replace(
            FPGA.arrays["2d"],
            rows=2,
            columns=int(draw.integers(1, 3)),
            registers_per_pe=int(draw.integers(5, 12)),
            operators={"multiply": slow, "add": matrix["add"]}
            | ({"exp": matrix["exp"], "max": matrix["max"]} if where < 0.6 else {}),
        ),
        "1d": dataclasses.replace(
            FPGA.arrays["1d"],
            columns=int(draw.integers(1, 4)),
            registers_per_pe=int(draw.integers(5, 12)),
            operators={"add": vector["add"]} | ({"exp": vector["exp"], "max": vector["max"]} if where > 0.4 else {}),
        ),
    }
    architecture = dataclasses.replace(
        FPGA,
        arrays=arrays,
        buffer=dataclasses.replace(FPGA.buffer, size_bits=128 * int(draw.integers(6, 30))),
        dram=dataclasses.replace(FPGA.dram, bandwidth_bits_per_s=float(draw.choice([1e8, 1e9, 1e11]))),
        pipeline_fill=PipelineFill(str(draw.choice(["charged", "hidden"]))),
        memory_overlaps_compute=bool(draw.random() < 0.7),
    )
    queries = int(draw.integers(1, 5))
    workload = Workload(
        name="small",
        batch=1,
        heads=1,
        kv_heads=1,
        queries=queries,
        keys=queries + int(draw.integers(0, 3)),
        query_key_dim=1,
        value_dim=1,
    )
    cascade = SMALL[2 if seed % 30 == 0 else (0, 1, 3)[seed % 3]]
    tiles = {"p0": int(draw.integers(1, 3)), "m0": int(draw.integers(1, 4))}
    if draw.random() < 0.8:
        tiles["p1"] = int(draw.integers(1, 4))
    if cascade.name == "two-passes":
        del tiles["m0"]
    return cascade, architecture, workload, tiles, int(seed % 4 == 0)


def all_prices(cascade, architecture, workload, tiles, two_stages):
    """Return the price of every legal schedule of the space, in no particular order, without bounds or dominance."""
    form = Form(cascade=cascade, architecture=architecture, whole_keys=cascade.name == "two-passes")
    costs = load_cost_table(architecture.technology)
    space = MapSpace(form, workload, tiles, ALL[two_stages])
    references = References(form, workload, costs)
    homes = list(itertools.product(*(form.homes(name) for name in form.inputs)))
    found = []
    for axes, sizes in space.nodes():
        node = Node(references, axes, sizes)
        for count, home, configuration, stages in itertools.product(
            space.counts(sizes[1]),
            homes,
            range(len(space.configurations)),
            STAGES[two_stages],
        ):
            pairs = zip(form.tiles, space.configurations.buffered[configuration], strict=True)
            pipeline = Pipeline(
                arrays=tuple(int(each) for each in space.configurations.arrays[configuration]),
                stages=stages,
                offsets=(0, 0, 0),
                groups=tuple(range(max(stages) + 1)),
                buffered=frozenset(maker for maker, flag in pairs if flag),
            )
            tiling = first_legal(form, node, pipeline, dict(zip(form.inputs, home, strict=True)), count)
            if tiling is not None:
                found.append(price_tiling(tiling, costs))
    return found


def first_legal(form, node, pipeline, homes, count):
    """Return the tiling with the first offsets that are legal; None if none are."""
    order = node.problem(pipeline.arrays, pipeline.buffered, node.distance(count), 0)
    for offsets in order.offsets(pipeline.stages):
        plan = form.plan(node.axes, homes, dataclasses.replace(pipeline, offsets=offsets))
        tiling = Tiling(
            bound=bind(form.cascade, form.architecture, plan),
            tiles={"m0": node.sizes[0], "p1": count, "p0": node.sizes[1]},
            workload=node.workload,
        )
        if not problems(tiling):
            return tiling
    return None


def dominates(one, other):
    """Whether one is nowhere worse and somewhere better, by more than rounding."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b * (1 + 1e-9) for a, b in pairs) and any(a < b * (1 - 1e-9) for a, b in pairs)


@pytest.mark.parametrize("block", range(21))
def test_the_search_finds_what_trying_all_schedules_finds(block):
    for seed in range(10 * block, 10 * block + 10):
        problem = small_problem(seed)
        prices = all_prices(*problem)
        cascade, architecture, workload, tiles, two_stages = problem
        if not prices:
            with pytest.raises(InputError, match="no tile sizes of the space make a legal schedule"):
                search(cascade, architecture, workload, tiles=tiles, limits=ALL[two_stages])
            continue
        for objective in Objective:
            found = search(cascade, architecture, workload, objective, tiles=tiles, limits=ALL[two_stages])
            best = min(objective.value_of(each.latency_cycles, each.energy_pj) for each in prices)
            assert found.value == pytest.approx(best, rel=1e-12), seed
            assert found.optimal
            assert found.points_illegal == 0, "the rules of pipelines are those of the model"
            assert found.lower_bound_cycles <= found.result.latency_cycles * (1 + 1e-12)
        measures = {(e.latency_cycles, e.energy_pj, sum(e.occupancy_bits.values())) for e in prices}
        for result in front(cascade, architecture, workload, tiles=tiles, limits=ALL[two_stages]).results:
            own = result.latency_cycles, result.energy_pj, sum(result.occupancy_bits.values())
            assert not any(dominates(each, own) for each in measures), seed


@pytest.mark.parametrize(("model", "length"), [("BERT", 1 << 10), ("BERT", 1 << 16), ("XLM", 1 << 12)])
def test_the_schedule_found_reaches_the_floor_of_the_matrix_array(model, length):
    heads, dim = MODELS[model]
    workload = Workload(
        name=model, batch=64, heads=heads, kv_heads=heads, queries=length, keys=length, query_key_dim=dim, value_dim=dim
    )
    found = search(CASCADE, CLOUD, workload)
    tiles_of_256 = 64 * heads * (length // 256) ** 2
    assert found.result.latency_cycles <= 1.001 * tiles_of_256 * (2 * dim + 9)
    assert found.optimal
    assert found.gap == 0
    # FuseMax's own schedule, as published (section V): 9 + F + max(E + 1, 1 + F + F / M1) cycles a tile.
    assert found.result.latency_cycles < tiles_of_256 * (9 + dim + 1 + dim + dim / (length // 256))


@pytest.mark.parametrize("name", sorted(set(template_names()) & {"interleaved-1pass", "vector-softmax-1pass"}))
@pytest.mark.parametrize("architecture", [CLOUD, FPGA], ids=lambda each: each.name)
def test_no_template_beats_the_space(name, architecture):
    length = 512 if architecture is CLOUD else 64
    workload = Workload(
        name="w", batch=1, heads=2, kv_heads=2, queries=length, keys=length, query_key_dim=64, value_dim=64
    )
    by_hand = search(CASCADE, architecture, workload, plan=load_template(name).plan)
    assert search(CASCADE, architecture, workload).result.latency_cycles <= by_hand.result.latency_cycles


def test_a_schedule_that_is_found_executes_as_priced():
    workload = Workload(name="w", batch=1, heads=2, kv_heads=1, queries=24, keys=40, query_key_dim=4, value_dim=6)
    for objective in Objective:
        found = search(CASCADE, FPGA, workload, objective, limits=Limits(points=20))
        inputs = random_inputs(CASCADE, found.schedule, workload, 0)
        execution = execute(CASCADE, FPGA, found.schedule, workload, inputs)
        assert differences(execution, found.result) == []
        assert price(CASCADE, FPGA, found.schedule, workload) == found.result


def test_a_cascade_of_three_passes_runs_in_its_derived_form():
    workload = read_hugging_face_config(BERT).workload(length=512)
    plain, one_pass = search(load_cascade("attention-3pass"), CLOUD, workload), search(CASCADE, CLOUD, workload)
    assert plain.result == one_pass.result
    assert plain.optimal and plain.points_considered > one_pass.points_considered  # both forms
    assert plain.cascade == CASCADE
    derived = derive(load_cascade("attention-3pass")).cascade
    own = search(derived, CLOUD, workload)
    assert own.result.latency_cycles == plain.result.latency_cycles
    assert own.schedule.cascade == derived.name


def test_a_cascade_of_two_passes_runs_with_all_keys_in_a_tile():
    cascade = load_cascade("attention-2pass")
    workload = Workload(name="w", batch=1, heads=2, kv_heads=2, queries=24, keys=24, query_key_dim=4, value_dim=4)
    found = search(cascade, FPGA, workload, limits=Limits(points=10))
    assert (found.cascade, found.schedule.tiles["m0"]) == (cascade, 24)
    assert price(cascade, FPGA, found.schedule, workload) == found.result
    inputs = random_inputs(cascade, found.schedule, workload, 0)
    assert differences(execute(cascade, FPGA, found.schedule, workload, inputs), found.result) == []


def test_sizes_follow_every_array_and_the_equal_parts_of_the_rank():
    wider = dataclasses.replace(FPGA.arrays["1d"], columns=9)
    both = dataclasses.replace(FPGA, arrays={"2d": FPGA.arrays["2d"], "1d": wider})
    plan = load_template("interleaved-1pass").plan
    assert {8, 9, 16, 18} <= set(sizes_along(both, plan.axes["p0"], 100, 2))
    assert 50 in sizes_along(CLOUD, plan.axes["p0"], 300, 2) or 150 in sizes_along(CLOUD, plan.axes["p0"], 300, 2)
    workload = Workload(name="w", batch=1, heads=1, kv_heads=1, queries=64, keys=64, query_key_dim=8, value_dim=8)
    assert 8 in search(CASCADE, both, workload, plan=plan).space["p0"]


def test_loads_in_closed_form_are_those_of_every_tile():
    form = Form(cascade=CASCADE, architecture=FPGA)
    workload = Workload(name="w", batch=1, heads=3, kv_heads=1, queries=29, keys=53, query_key_dim=5, value_dim=7)
    references = References(form, workload, load_cost_table(FPGA.technology))
    for axes, sizes in list(MapSpace(form, workload, {}, Limits()).nodes())[::37]:
        node = Node(references, axes, sizes)
        assert np.array_equal(node.loads, node._loads_tile_by_tile())


def test_the_space_is_counted():
    workload = read_hugging_face_config(BERT).workload(length=1024)
    dimensions, points = map_space(CASCADE, CLOUD, workload)
    sizes = {each.name: each.size for each in dimensions}
    homes, bindings, pipelines = (sizes[k] for k in ("homes of the inputs", "binding and homes of tiles", "pipeline"))
    assert points == sizes["axes, m0, p0 and p1 together"] * homes * bindings * pipelines
    # Stirling numbers of the second kind: 12 Einsums in k stages, the first in the first, in (k - 1)! orders.
    assert pipelines == 1 + 2047 + 86526 * 2 + 611501 * 6
    assert all(each.size <= each.unconstrained for each in dimensions)
    assert search(CASCADE, CLOUD, workload).points_considered == points


def test_a_budget_ends_the_search_with_a_proven_gap():
    workload = read_hugging_face_config(BERT).workload(length=100)
    found = search(CASCADE, FPGA, workload, limits=Limits(points=1))
    assert found.points_priced + found.points_illegal <= 2
    assert not found.optimal
    assert 0 < found.proven_bound < found.value
    more = search(CASCADE, FPGA, workload, limits=Limits(points=40))
    assert more.value <= found.value
    assert more.value >= found.proven_bound


def test_an_interrupt_returns_the_best_so_far():
    calls = []

    def interrupt(progress):
        calls.append(progress)
        raise KeyboardInterrupt

    workload = read_hugging_face_config(BERT).workload(length=100)
    found = search(CASCADE, FPGA, workload, limits=Limits(interruptible=True), watch=interrupt)
    assert len(calls) == 1
    assert not found.optimal
    with pytest.raises(KeyboardInterrupt):
        search(CASCADE, FPGA, workload, watch=interrupt)


def test_the_command_feeds_a_schedule_back_in(einrtl, tmp_path):
    saved, again = tmp_path / "schedule.yaml", tmp_path / "again.yaml"
    run = einrtl("map", BERT, "--length", "512", "--cascade", "attention-3pass", "--save", saved, "--json")
    assert run.code == 0
    cycles = json.loads(run.out)["latency_cycles"]
    back = einrtl("map", BERT, "--length", "512", "--plan", saved, "--save", again, "--json")
    assert json.loads(back.out)["latency_cycles"] == cycles
    priced = einrtl("price", saved, BERT, "--length", "512", "--json")
    assert json.loads(priced.out)["latency_cycles"] == cycles
    assert spec.load(Schedule, again).plan == spec.load(Schedule, saved).plan


def test_the_command_prints_space_and_front(einrtl):
    space = einrtl("map", BERT, "--length", "512", "--space", "--json")
    assert json.loads(space.out)["points"] > 1e12
    shown = einrtl("map", BERT, "--length", "512", "--pareto", "--tile", "m0=512", "--tile", "p0=256", "--points", "5")
    assert shown.code == 0
    assert "Pareto front" in shown.out


@pytest.mark.parametrize(
    ("name", "queries", "keys", "window"),
    [
        ("attention-1pass-causal", 16, 16, None),
        ("attention-1pass-causal", 2, 24, None),
        ("attention-1pass-window", 16, 16, 5),
        ("attention-1pass-window", 2, 24, 9),
    ],
)
def test_with_a_mask_no_schedule_of_a_plan_goes_below_the_floors(
    name: str, queries: int, keys: int, window: int | None
) -> None:
    """Every tile size priced: none is below a floor or below what the search found, and the search found the best."""
    workload = Workload(
        name="w",
        batch=1,
        heads=2,
        kv_heads=2,
        queries=queries,
        keys=keys,
        query_key_dim=4,
        value_dim=4,
        window=window,
    )
    cascade, architecture = load_cascade(name), load_architecture("fpga-8x8")
    plan = find_plan(cascade, architecture)
    found = search(cascade, architecture, workload, plan=plan)
    assert found.optimal and found.lower_bound_cycles <= found.result.latency_cycles * (1 + 1e-9)
    for tiles in itertools.product(*found.space.values()):
        schedule = Schedule(
            cascade=cascade.name,
            architecture=architecture.name,
            tiles=dict(zip(found.space, tiles, strict=True)),
            plan=plan,
        )
        try:
            result = price(cascade, architecture, schedule, workload)
        except InputError:
            continue
        assert result.latency_cycles >= found.floor_cycles * (1 - 1e-9)
        assert result.latency_cycles >= found.result.latency_cycles * (1 - 1e-9)
