"""Wrong architectures, cost tables, workloads, schedules and commands, each with the exact text that a user sees."""

import dataclasses
import json

import pytest

from accel import spec
from accel.arch import Architecture, Operator, load_architecture
from accel.cascade import load_cascade
from accel.cost import ActionCost, CostTable, load_cost_table
from accel.errors import InputError
from accel.result import Result
from accel.schedule import Axis, Group, Level, Residence, Schedule, load_schedule, load_template
from accel.workload import AttentionModel, Workload, read_hugging_face_config
from mapping.model import price
from mapping.plot import gantt
from mapping.search import search
from mapping.templates import find_plan

CASCADE = load_cascade("attention-1pass")
CLOUD = load_architecture("fusemax-cloud")
FPGA = load_architecture("fpga-8x8")
PLAN = load_template("interleaved-1pass").plan
WORKLOAD = Workload(name="w", batch=1, heads=1, kv_heads=1, queries=1024, keys=1024, query_key_dim=64, value_dim=64)
BERT = {
    "model_type": "bert",
    "hidden_size": 384,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
}


def plan(**changes):
    return dataclasses.replace(PLAN, **changes)


def priced(given=PLAN, architecture=CLOUD, **tiles):
    schedule = Schedule(
        cascade=CASCADE.name, architecture=architecture.name, tiles=tiles or {"m0": 256, "p0": 256, "p1": 4}, plan=given
    )
    return price(CASCADE, architecture, schedule, WORKLOAD)


def slow_products(architecture):
    """Return the architecture with products on its 1D array that take longer than the sums that take them up."""
    array = architecture.arrays["1d"]
    operators = {**array.operators, "multiply": Operator(cycles=3, actions={"multiply": 1})}
    arrays = {**architecture.arrays, "1d": dataclasses.replace(array, operators=operators)}
    return dataclasses.replace(architecture, arrays=arrays)


def message_of(action):
    with pytest.raises(InputError) as caught:
        action()
    return str(caught.value)


def sums_in_an_inner_loop():
    """Return a plan for attention without a running maximum that keeps its denominator for one query tile only."""
    outer, inner = (Residence(level=Level.BUFFER, within=loop) for loop in ("p2", "m1"))
    stream = Residence(level=Level.STREAM)
    slots = {"2d": ("QK", "SN", "SNV"), "1d": ("SD", "AV")}
    return plan(
        epoch=(Group(slots=(slots,)),),
        offsets={"QK": 0, "SN": 0, "SNV": 0, "SD": 1, "AV": 1},
        residency={
            **dict.fromkeys(("Q", "SNV"), outer),
            **dict.fromkeys(("K", "V"), inner),
            "SD": Residence(level=Level.BUFFER, within="p1"),
            **dict.fromkeys(("QK", "SN", "AV"), stream),
        },
    )


LATER = PLAN.epoch[1:]

WRONG = {
    "a buffer too small": (
        lambda: priced(architecture=FPGA, m0=8, p0=8, p1=60),
        (
            "the buffer must hold 1014784 bits (Q 491520, K 8192, V 8192, RM 7680, RD 7680, RNV 491520), but has "
            "524288 for them: 490496 too few; lower p1 to 30"
        ),
    ),
    "registers too few": (
        lambda: priced(m0=768, p0=256, p1=1),
        "a PE of array '2d' must hold 9 registers (BQK 6, SLN 3), but has 7 for them: 2 too few; lower m0 to 512",
    ),
    "an Einsum left out": (
        lambda: priced(plan(epoch=(PLAN.epoch[0], PLAN.epoch[2]), offsets=PLAN.offsets)),
        "an offset must belong to an Einsum of the epoch, but 'RM' is none; did you mean 'PRM'?",
    ),
    "an Einsum that no array runs": (
        lambda: priced(
            plan(
                epoch=(PLAN.epoch[0], PLAN.epoch[2]),
                offsets={name: offset for name, offset in PLAN.offsets.items() if name != "RM"},
            )
        ),
        (
            "the epoch must run every Einsum of cascade 'attention-1pass', but lacks 'RM'; add it to the slot of "
            "an array"
        ),
    ),
    "an operator that the array lacks": (
        lambda: priced(
            plan(
                epoch=(
                    Group(slots=({"2d": ("BQK", "LM", "AV"), "1d": ("RNV", "RD")}, PLAN.epoch[0].slots[1])),
                    *LATER,
                )
            )
        ),
        (
            "array '2d' must have operator 'divide' to run Einsum 'AV', but has multiply_add, multiply, add, "
            "subtract, max, exp; bind it to '1d'"
        ),
    ),
    "an array that is not there": (
        lambda: priced(plan(epoch=(PLAN.epoch[0], Group(slots=({"3d": ("RM",)},)), PLAN.epoch[2]))),
        "Einsum 'RM' must be bound to an array of architecture 'fusemax-cloud', but '3d' is none; known: 1d, 2d",
    ),
    "a value used in the epoch before it is made": (
        lambda: priced(plan(offsets={**PLAN.offsets, "SLN": 0})),
        (
            "'SLN' must run after 'RM' of the same tile, from which it reads RM[p,m1+1], but its tile offset is 0"
            " and must be at least 1; raise the offset of 'SLN' to 1"
        ),
    ),
    "a running value used before it is updated": (
        lambda: priced(plan(offsets={**PLAN.offsets, "SPD": 1}), m0=256, p0=256, p1=1),
        (
            "'SPD' must run after 'RD' of the tile 1 before, from which it reads RD[p,m1], but its tile offset is"
            " 1 and must be at least 2; raise the offset of 'SPD' to 2, or let the loop over p1 run over more "
            "tiles"
        ),
    ),
    "a running tensor that is streamed": (
        lambda: priced(plan(residency={**PLAN.residency, "RD": Residence(level=Level.STREAM)})),
        "running tensor 'RD' must be kept until the next step of 'm1', but is streamed; use level buffer",
    ),
    "a running tensor kept in an inner loop": (
        lambda: priced(plan(residency={**PLAN.residency, "RD": Residence(level=Level.BUFFER, within="p1")})),
        (
            "running tensor 'RD' must be kept until the next step of 'm1', but is kept within 'p1', a loop inside it; "
            "keep it within 'm1' or a loop around it"
        ),
    ),
    "an Einsum that overtakes its slower maker in the other slot": (
        lambda: priced(architecture=slow_products(FPGA), m0=8, p0=8, p1=4),
        (
            "'RNV' must run after 'SPNV' of the same tile, from which it reads SPNV[p,m1,f], but its tile offset is 3 "
            "and must be at least 4; raise the offset of 'RNV' to 4"
        ),
    ),
    "a result taken up after the next query's took its place": (
        lambda: priced(plan(offsets={**PLAN.offsets, "AV": 5}), m0=256, p0=256, p1=1),
        (
            "'AV' must read RNV[p,M1,f] before 'RNV' puts a newer value in its place, but its tile offset is 5; lower "
            "the offset of 'AV' to 3, or keep 'RNV' in more copies or within an outer loop\n"
            "'AV' must read RD[p,M1] before 'RD' puts a newer value in its place, but its tile offset is 5; lower the "
            "offset of 'AV' to 3, or keep 'RD' in more copies or within an outer loop"
        ),
    ),
    "a sum whose place other tiles take before it goes on": (
        lambda: price(
            load_cascade("attention-naive-deferred"),
            FPGA,
            Schedule(
                cascade="attention-naive-deferred",
                architecture=FPGA.name,
                tiles={"m0": 8, "p0": 8, "p1": 2},
                plan=sums_in_an_inner_loop(),
            ),
            WORKLOAD,
        ),
        (
            "the sum 'SD' must be kept until its next tile goes on with it, but another takes its place before; keep "
            "'SD' in more copies or within an outer loop"
        ),
    ),
    "an input in registers": (
        lambda: priced(plan(residency={**PLAN.residency, "Q": Residence(level=Level.REGISTERS)})),
        "input 'Q' must live in the buffer or be streamed, not in registers; use level buffer",
    ),
    "a tensor without a home": (
        lambda: priced(plan(residency={name: each for name, each in PLAN.residency.items() if name != "RM"})),
        "residency must say where tensor 'RM' lives; add RM: {level: LEVEL}",
    ),
    "a schedule for another architecture": (
        lambda: price(
            CASCADE,
            FPGA,
            Schedule(cascade=CASCADE.name, architecture="fusemax-cloud", tiles={"m0": 1, "p0": 1, "p1": 1}, plan=PLAN),
            WORKLOAD,
        ),
        (
            "the schedule must be for architecture 'fpga-8x8', but is for 'fusemax-cloud'; price it with "
            "architecture 'fusemax-cloud'"
        ),
    ),
    "a cascade without a template": (
        lambda: find_plan(load_cascade("attention-3pass"), CLOUD),
        (
            "cascade 'attention-3pass' must have the structure of a schedule template to be mapped; templates are"
            " for attention-1pass; map one of those, or write a schedule and price it with mapping.model.price"
        ),
    ),
    "a space without a legal schedule": (
        lambda: search(
            CASCADE,
            dataclasses.replace(FPGA, buffer=dataclasses.replace(FPGA.buffer, size_bits=1280)),
            WORKLOAD,
            plan=PLAN,
        ),
        (
            "no tile sizes of the space make a legal schedule on architecture 'fpga-8x8'; closest is m0=1, p0=1, "
            "p1=1, where the buffer must hold 4352 bits (Q 1024, K 1024, V 1024, RM 128, RD 128, RNV 1024), but "
            "has 1280 for them: 3072 too few; enlarge the buffer"
        ),
    ),
    "a fixed tile that does not fit": (
        lambda: search(CASCADE, CLOUD, WORKLOAD, plan=PLAN, tiles={"m0": 1024, "p0": 256, "p1": 4}),
        (
            "no tile sizes of the space make a legal schedule on architecture 'fusemax-cloud'; closest is "
            "m0=1024, p0=256, p1=4, where a PE of array '2d' must hold 12 registers (BQK 8, SLN 4), but has 7 for"
            " them: 5 too few; lower m0 to 512"
        ),
    ),
    "an unknown objective": (
        lambda: search(CASCADE, CLOUD, WORKLOAD, "speed"),
        "the objective must be one of latency, energy, edp, not 'speed'; use latency",
    ),
    "an unknown tile rank": (
        lambda: search(CASCADE, CLOUD, WORKLOAD, tiles={"m9": 1}),
        "a tile size must belong to a tile rank of the plan, but 'm9' is none; known: m0, p0, p1",
    ),
    "a tile size of 0": (
        lambda: search(CASCADE, CLOUD, WORKLOAD, tiles={"m0": 0}),
        "tile size m0 must be at least 1, not 0; use m0=1",
    ),
    "a cost table without the component": (
        lambda: load_cost_table("open-45nm").energy_pj("srom", "read"),
        "cost table 'open-45nm' must have an entry for component 'srom'; did you mean 'sram'?",
    ),
    "a cost table without the action": (
        lambda: load_cost_table("open-45nm").energy_pj("pe-int16", "log"),
        (
            "cost table 'open-45nm' must have an entry for action 'log' of component 'pe-int16'; known: add, "
            "divide, max, multiply"
        ),
    ),
    "an unknown cost table": (
        lambda: load_cost_table("open45"),
        "'open45' is not the name of a cost table; did you mean 'open-45nm'? a file needs its .yaml ending",
    ),
    "an unknown architecture": (
        lambda: load_architecture("fusemax-clod"),
        (
            "'fusemax-clod' is not the name of an architecture; did you mean 'fusemax-cloud'? a file needs its "
            ".yaml ending"
        ),
    ),
    "a negative energy": (
        lambda: ActionCost(energy_pj=-1.0, source="x"),
        "energy_pj must be a finite number of picojoules, 0 or more, not -1.0; give the energy of one action in pJ",
    ),
    "an energy without a source": (
        lambda: ActionCost(energy_pj=1.0, source=" "),
        "source must name where the number comes from, but is empty",
    ),
    "a cost table without components": (
        lambda: CostTable(name="x", description="x", components={}),
        "components must hold at least one component",
    ),
    "an operator that costs nothing": (
        lambda: Operator(cycles=1, actions={}),
        "actions must name what one operation costs; for example {mac: 1}",
    ),
    "a buffer of a broken row": (
        lambda: dataclasses.replace(FPGA.buffer, size_bits=1000),
        "size_bits must be a multiple of row_bits (128), not 1000; use 896",
    ),
    "no register for tensors": (
        lambda: dataclasses.replace(FPGA.arrays["2d"], working_registers=16),
        "working_registers must leave a register for tensors, but takes 16 of 16; raise registers_per_pe",
    ),
    "a clock that stands": (
        lambda: dataclasses.replace(FPGA, clock_hz=0.0),
        "clock_hz must be a positive number, not 0.0",
    ),
    "an Einsum twice": (
        lambda: plan(epoch=(*PLAN.epoch, Group(slots=({"1d": ("RM",)},)))),
        "Einsum 'RM' must run once in an epoch, not 2 times; remove all but one",
    ),
    "loops in the wrong order": (
        lambda: plan(loops=("p1", "m1", "p2")),
        "loop 'p2' must stand outside 'p1'; swap the two",
    ),
    "a loop left out": (
        lambda: plan(loops=("p2", "p1")),
        "loops must hold each of m1, p2, p1 once, not p2, p1; list every rank of the splits but the innermost",
    ),
    "an axis for two ranks": (
        lambda: plan(axes={"m0": Axis.ROWS, "p0": Axis.ROWS}),
        "each axis must serve one tile rank, but one serves two; leave one of the two without an axis",
    ),
    "a buffer tensor kept for no loop": (
        lambda: Residence(level=Level.BUFFER),
        (
            "within must be given for level buffer and for no other, but level is buffer and within is absent; "
            "name the loop for one iteration of which the tensor is kept"
        ),
    ),
    "a tile size left out": (
        lambda: Schedule(cascade="c", architecture="a", tiles={"m0": 1, "p0": 1}, plan=PLAN),
        "tiles must give the size of p1; add p1: SIZE",
    ),
    "heads that do not share keys evenly": (
        lambda: dataclasses.replace(WORKLOAD, heads=12, kv_heads=8),
        "heads must be a multiple of kv_heads, but 12 is none of 8; use 8 heads",
    ),
    "a workload of no sequence": (lambda: dataclasses.replace(WORKLOAD, batch=0), "batch must be at least 1, not 0"),
    "a model of no layer": (
        lambda: AttentionModel(
            name="x", model_type="bert", hidden=1, layers=0, heads=1, kv_heads=1, head_dim=1, ffn=1, default_length=1
        ),
        "layers must be at least 1, not 0",
    ),
    "values that are no result": (
        lambda: Result.from_dict({"limit": "dram"}),
        (
            "a result must have the fields of accel.result.Result, but accounting: Field required; give what "
            "Result.as_dict returned"
        ),
    ),
    "a picture of another kind": (
        lambda: gantt(priced(), "schedule.pdf"),
        "the picture must be a .png file, not 'schedule.pdf'; use schedule.png",
    ),
    "a picture in no folder": (
        lambda: gantt(priced(), "/nowhere/at/all.png"),
        "/nowhere/at/all.png must be writable: No such file or directory; check the folder",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_description_is_refused_with_the_way_out(case):
    action, expected = WRONG[case]
    assert message_of(action) == expected


FILES = {
    "unknown key of an architecture": (
        Architecture,
        FPGA,
        (
            "working_registers: 3\n    component: pe-int16",
            "working_registers: 3\n    colour: red\n    component: pe-int16",
        ),
        "file.yaml:13:5: 'arrays.2d.colour' is not a known key; did you mean 'columns'?",
    ),
    "source of no field": (
        Architecture,
        FPGA,
        ("arrays.2d.rows:", "arrays.2d.raws:"),
        (
            "file.yaml:99:3: a source must belong to a field, but 'arrays.2d.raws' is none; did you mean "
            "'arrays.2d.rows'?"
        ),
    ),
    "loop that is not there": (
        Schedule,
        Schedule(cascade="c", architecture="a", tiles={"m0": 1, "p0": 1, "p1": 1}, plan=PLAN),
        ("within: p2", "within: p9"),
        "file.yaml:65:7: plan: within must name a loop, but 'p9' is none; known: instance, m1, p1, p2",
    ),
    "level that is not there": (
        Schedule,
        Schedule(cascade="c", architecture="a", tiles={"m0": 1, "p0": 1, "p1": 1}, plan=PLAN),
        ("level: stream", "level: air"),
        "file.yaml:119:7: 'plan.residency.LM.level' must be one of buffer, registers, stream, not 'air'",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_wrong_file_is_refused_with_its_place(case, tmp_path, monkeypatch):
    cls, value, (old, new), expected = FILES[case]
    monkeypatch.chdir(tmp_path)
    text = spec.dump(value)
    assert old in text
    (tmp_path / "file.yaml").write_text(text.replace(old, new, 1))
    load = load_schedule if cls is Schedule else load_architecture
    assert message_of(lambda: load("file.yaml")) == expected


def without(key):
    return {name: value for name, value in BERT.items() if name != key}


CONFIGS = {
    "missing field": (
        json.dumps(without("hidden_size")),
        (
            "config.json: 'hidden_size' must be given for model_type 'bert', but is missing; known: "
            "intermediate_size, max_position_embeddings, model_type, num_attention_heads, num_hidden_layers"
        ),
    ),
    "unknown model type": (
        json.dumps({**BERT, "model_type": "mamba"}),
        (
            "config.json: 'model_type' must be one of bert, gemma2, gemma3_text, gpt2, llama, mistral, qwen2, vit, "
            'but is "mamba"; other models can be'
            " described by one of these types if their attention has the same shape"
        ),
    ),
    "no model type": (
        json.dumps(without("model_type")),
        (
            "config.json: 'model_type' must be one of bert, gemma2, gemma3_text, gpt2, llama, mistral, qwen2, vit, "
            "but is missing; other models can be"
            " described by one of these types if their attention has the same shape"
        ),
    ),
    "wrong type": (
        json.dumps({**BERT, "hidden_size": "384"}),
        (
            "config.json: 'hidden_size' must be a whole number of at least 1, not \"384\"; take it from the model's"
            " own config.json"
        ),
    ),
    "true is no number": (
        json.dumps({**BERT, "num_hidden_layers": True}),
        (
            "config.json: 'num_hidden_layers' must be a whole number of at least 1, not true; take it from the "
            "model's own config.json"
        ),
    ),
    "heads that do not divide": (
        json.dumps({**BERT, "num_attention_heads": 7}),
        (
            "config.json: 'hidden_size' must be a multiple of 'num_attention_heads', but 384 is none of 7; take "
            "both from the model's own config.json"
        ),
    ),
    "patches that do not divide": (
        json.dumps({**BERT, "model_type": "vit", "image_size": 224, "patch_size": 15}),
        (
            "config.json: 'image_size' must be a multiple of 'patch_size', but 224 is none of 15; take both from "
            "the model's own config.json"
        ),
    ),
    "groups of heads that do not divide": (
        json.dumps({**BERT, "model_type": "llama", "num_key_value_heads": 5}),
        "config.json: heads must be a multiple of kv_heads, but 12 is none of 5; use 10 heads",
    ),
    "no JSON": (
        "{hidden}",
        (
            "config.json:1:2: the text must be JSON: Expecting property name enclosed in double quotes; give a "
            "model's config.json"
        ),
    ),
    "a list": ("[1]", "config.json must hold a JSON object; give a model's config.json"),
    "a key twice": (
        '{"model_type": "bert", "model_type": "vit"}',
        "config.json: key 'model_type' must stand once, but stands 2 times; remove all but one",
    ),
    "a number without end": ('{"n": ' + "9" * 5000 + "}", "config.json must be plain JSON; give a model's config.json"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_wrong_configuration_is_refused_with_its_file(case, tmp_path, monkeypatch):
    text, expected = CONFIGS[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(text)
    assert message_of(lambda: read_hugging_face_config("config.json")) == expected


COMMANDS = {
    "no such file": (
        ["nowhere.json"],
        "error: nowhere.json must be a readable file: No such file or directory; check the path\n",
    ),
    "a tile without a size": (
        ["config.json", "--tile", "m0"],
        "Error: Invalid value for '--tile': 'm0' must be RANK=SIZE with a whole number, such as m0=256\n",
    ),
    "a tile twice": (
        ["config.json", "--tile", "m0=8", "--tile", "m0=16"],
        "Error: Invalid value for '--tile': m0 must be given once, not as 8 and 16\n",
    ),
    "an unknown architecture": (
        ["config.json", "--arch", "fpga"],
        "error: 'fpga' is not the name of an architecture; did you mean 'fpga-8x8'? a file needs its .yaml ending\n",
    ),
    "a folder that is not there": (
        ["config.json", "--save", "no/where.yaml"],
        "error: no/where.yaml must be in a folder, but no is none; make it first\n",
    ),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_wrong_command_ends_with_code_2_and_no_traceback(case, einrtl, tmp_path, monkeypatch):
    arguments, expected = COMMANDS[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(BERT))
    run = einrtl("map", *arguments)
    assert run.code == 2
    assert run.out == ""
    assert run.err.endswith(expected)
    assert "Traceback" not in run.err
