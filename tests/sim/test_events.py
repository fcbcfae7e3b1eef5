"""The event-level simulator: it computes attention, agrees with the model, and refuses schedules that cannot run."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import sim.events.cli
from accel import spec
from accel.arch import Operator, PipelineFill
from accel.cascade import Cascade, load_cascade
from accel.errors import InputError
from accel.notation import parse
from accel.schedule import Group, Level, Plan, Residence
from mapping.bound import bind
from mapping.legal import order_problems
from mapping.model import price
from mapping.tiling import Tiling
from sim.events import ExecutionError, Kind, differences, execute
from tests.sim.event_cases import (
    ATTENTION,
    CLOUD,
    FPGA,
    PLAN,
    PUBLISHED,
    SMALL,
    TILES,
    case,
    check_conservation,
    executed,
    kept,
    priced,
    with_array,
    worst_error,
)
from tests.sim.random_schedules import Case


@pytest.mark.parametrize("architecture", [FPGA, CLOUD], ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("tiles", "changes"),
    [
        (TILES, {}),
        ({"m0": 3, "p0": 12, "p1": 1}, {}),
        ({"m0": 20, "p0": 3, "p1": 2}, {"keys": 41}),
        ({"m0": 4, "p0": 8, "p1": 1}, {"queries": 1, "heads": 8, "kv_heads": 2, "keys": 30}),
        ({"m0": 5, "p0": 5, "p1": 3}, {"batch": 2, "query_key_dim": 5, "value_dim": 1, "queries": 17}),
    ],
    ids=["small", "one query tile", "several turns", "decoding with shared heads", "batch"],
)
def test_the_packaged_plan_computes_attention_at_the_price_that_the_model_says(architecture, tiles, changes):
    given = case(architecture=architecture, tiles=tiles, workload=dataclasses.replace(SMALL, **changes))
    execution = executed(given)
    assert differences(execution, priced(given)) == []
    assert worst_error(given, execution) < 1e-12
    check_conservation(given, execution)


@pytest.mark.parametrize("name", PUBLISHED)
def test_other_published_plans_compute_attention_too(name):
    given = case(PUBLISHED[name], architecture=CLOUD, tiles={**TILES, "p1": 3})
    execution = executed(given)
    assert differences(execution, priced(given)) == []
    assert worst_error(given, execution) < 1e-12


def test_a_division_in_front_of_the_next_sum_needs_no_second_query_tile():
    plan = PUBLISHED["+Architecture"]
    first = dataclasses.replace(plan.epoch[0], slots=({"2d": ("BQK", "LM"), "1d": ("AV", "RD")},))
    given = case(
        dataclasses.replace(plan, epoch=(first, *plan.epoch[1:])), architecture=CLOUD, tiles={**TILES, "p1": 1}
    )
    execution = executed(given)
    assert differences(execution, priced(given)) == []
    assert worst_error(given, execution) < 1e-12


def test_what_is_fetched_and_held_is_known_by_hand():
    execution = executed(case())
    # 3 query tiles of 4 x 2 values of 16 bits, 64 to a DRAM word: 2 words each. The buffer holds two of them, a row
    # (128 bits) each. Keys: tiles of 4, 4 and 1, once for each of 2 groups of query tiles.
    assert execution.count("dram", "read", "Q") == 3 * 2
    assert execution.count("dram", "read", "K") == 2 * (2 + 2 + 1)
    assert execution.buffer_peak_bits["Q"] == 2 * 128
    assert execution.runs["BQK"] == 9
    assert execution.runs["AV"] == 3


@pytest.fixture
def saved(tmp_path):
    """Return a schedule and the configuration of a model."""
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "model_type": "llama",
                "hidden_size": 32,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "num_hidden_layers": 1,
                "intermediate_size": 64,
                "max_position_embeddings": 24,
            }
        )
    )
    path = tmp_path / "schedule.yaml"
    path.write_text(spec.dump(case(tiles={"m0": 8, "p0": 8, "p1": 3}).schedule))
    return path, config


def test_the_command_executes_a_saved_schedule(einrtl, saved):
    finished = einrtl("events", *saved)
    assert (finished.code, finished.err) == (0, "")
    assert "Every cycle and every count is that of the model." in finished.out
    values = json.loads(einrtl("events", *saved, "--length", "19", "--seed", "3", "--json").out)
    assert values["differences"] == []
    assert 0 < values["worst_error"] < 1e-12
    model = json.loads(einrtl("price", *saved, "--length", "19", "--json").out)
    assert values["compute_cycles"] == model["compute_cycles"]
    assert len(values["actions"]) == len(model["actions"])


def test_the_command_fails_where_the_model_says_otherwise(einrtl, saved, monkeypatch):
    monkeypatch.setattr(sim.events.cli, "price", lambda *given: dataclasses.replace(price(*given), epochs=1))
    finished = einrtl("events", *saved)
    assert (finished.code, finished.err) == (1, "")
    assert "differences from the model" in finished.out


# What cannot run is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("einsum", [name for name, offset in PLAN.offsets.items() if offset])
def test_an_einsum_moved_to_an_earlier_epoch_is_refused_just_when_the_model_says_so(einsum):
    earlier = dataclasses.replace(PLAN, offsets={**PLAN.offsets, einsum: PLAN.offsets[einsum] - 1})
    given = case(earlier, tiles={"m0": 4, "p0": 4, "p1": 1})
    tiling = Tiling(bound=bind(ATTENTION, FPGA, earlier), tiles=given.schedule.tiles, workload=SMALL)
    illegal = any(True for _ in order_problems(tiling))
    if not illegal:
        assert worst_error(given, executed(given)) < 1e-12
        return
    with pytest.raises(ExecutionError) as caught:
        executed(given)
    assert caught.value.kind in (Kind.TOO_EARLY, Kind.NOT_MADE, Kind.NOT_HELD)


def test_a_pass_too_few_is_refused():
    plan = dataclasses.replace(
        naive_plan(),
        epoch=(Group(slots=({"2d": ("QK", "SN"), "1d": ("GM",)},)), Group(slots=({"1d": ("SD", "A", "AV")},))),
        offsets={"QK": 0, "GM": 1, "SN": 2, "SD": 3, "A": 3, "AV": 3},
        residency={
            **{name: naive_plan().residency[name] for name in ("Q", "K", "V", "QK", "SN", "SD", "AV")},
            "GM": Residence(level=Level.BUFFER, within="p2"),
            "A": Residence(level=Level.STREAM),
        },
    )
    with pytest.raises(ExecutionError) as caught:
        executed(case(plan, cascade=load_cascade("attention-3pass")))
    assert caught.value.kind is Kind.NOT_MADE


def test_memories_that_are_too_small_overflow():
    buffer = dataclasses.replace(FPGA.buffer, size_bits=8 * 128)
    with pytest.raises(ExecutionError) as caught:
        executed(case(architecture=dataclasses.replace(FPGA, buffer=buffer)))
    assert caught.value.kind is Kind.BUFFER_FULL
    with pytest.raises(ExecutionError) as caught:
        executed(case(architecture=with_array(registers_per_pe=5)))
    assert caught.value.kind is Kind.REGISTERS_FULL


def planted() -> dict[str, Case]:
    """Return cases that differ from ``case()`` in one thing each that a wrong model might overlook."""
    array = FPGA.arrays["2d"]
    slower = {**array.operators, "exp": dataclasses.replace(array.operators["exp"], cycles=7)}
    costlier = {**array.operators, "max": Operator(cycles=1, actions={"max": 2})}
    return {
        "cycles": case(architecture=with_array(operators=slower)),
        "actions": case(architecture=with_array(operators=costlier)),
        "pes": case(architecture=with_array(columns=3)),
        "fill": case(architecture=dataclasses.replace(FPGA, pipeline_fill=PipelineFill.HIDDEN)),
        "rows": case(architecture=dataclasses.replace(FPGA, buffer=dataclasses.replace(FPGA.buffer, row_bits=64))),
        "words": case(architecture=dataclasses.replace(FPGA, dram=dataclasses.replace(FPGA.dram, word_bits=32))),
        "fetches": case(tiles={**TILES, "p1": 3}),
        "order": case(dataclasses.replace(PLAN, offsets={**PLAN.offsets, "SPNV": 4, "RNV": 4, "AV": 4})),
        "stall": case(
            dataclasses.replace(PLAN, epoch=(*PLAN.epoch[:2], dataclasses.replace(PLAN.epoch[2], stall_cycles=1)))
        ),
        "instances": case(workload=dataclasses.replace(SMALL, batch=2)),
    }


def test_an_execution_agrees_with_its_own_price_and_with_no_other():
    execution = executed(case())
    assert differences(execution, priced(case())) == []
    overlooked = [name for name, other in planted().items() if not differences(execution, priced(other))]
    assert overlooked == []


def test_wrong_inputs_are_refused():
    given = case()
    with pytest.raises(InputError):
        execute(ATTENTION, FPGA, given.schedule, SMALL, {"Q": np.zeros((1, 2, 2))})


# Where the model was wrong --------------------------------------------------------------------


def naive_plan() -> Plan:
    """Return a plan for attention without a running maximum: sums go on from key tile to key tile."""
    buffer = {name: Residence(level=Level.BUFFER, within="p2") for name in ("Q", "SD", "SNV")}
    inner = {name: Residence(level=Level.BUFFER, within="m1") for name in ("K", "V")}
    return Plan(
        splits={"m": ("m1", "m0"), "p": ("p2", "p1", "p0")},
        loops=("p2", "m1", "p1"),
        axes=PLAN.axes,
        epoch=(
            Group(slots=({"2d": ("QK", "SN")},)),
            Group(slots=({"2d": ("SNV",), "1d": ("SD",)},)),
            Group(slots=({"1d": ("AV",)},)),
        ),
        offsets=dict.fromkeys(("QK", "SN", "SNV", "SD", "AV"), 0),
        residency={
            **buffer,
            **inner,
            "QK": Residence(level=Level.STREAM),
            "SN": Residence(level=Level.REGISTERS),
            "AV": Residence(level=Level.STREAM),
        },
    )


def naive() -> Cascade:
    return load_cascade("attention-naive-deferred")


def test_sums_that_go_on_over_key_tiles_compute_attention():
    given = case(naive_plan(), cascade=naive())
    assert worst_error(given, executed(given)) < 1e-12


def in_buffer(within: str) -> Residence:
    return Residence(level=Level.BUFFER, within=within)


def multiplied_inside() -> Case:
    cascade = parse("cascade c\n  input  Q[p,e]  K[m,e]\n  S[p,m] = exp(Q[p,e] * K[m,e])\n", file="c.ein")
    plan = Plan(
        splits={"m": ("m1", "m0"), "p": ("p1", "p0")},
        loops=("p1", "m1"),
        axes={},
        epoch=(Group(slots=({"2d": ("S",)},)),),
        offsets={"S": 0},
        residency={"Q": in_buffer("p1"), "K": in_buffer("m1"), "S": Residence(level=Level.STREAM)},
    )
    return case(plan, cascade=cascade, tiles={"m0": 4, "p0": 4})


def slow_products() -> Case:
    """Return the packaged plan on an array whose products take longer than the sums that take them up."""
    operators = {**FPGA.arrays["1d"].operators, "multiply": Operator(cycles=3, actions={"multiply": 1})}
    array = dataclasses.replace(FPGA.arrays["1d"], operators=operators)
    return case(architecture=dataclasses.replace(FPGA, arrays={**FPGA.arrays, "1d": array}))


def later(einsum: str, **changes: object) -> Plan:
    plan = dataclasses.replace(PLAN, offsets={**PLAN.offsets, einsum: PLAN.offsets[einsum] + 2})
    return dataclasses.replace(plan, **changes)


COUNTS = {
    "an input in an inner loop that has one iteration is fetched once": lambda: case(
        kept(Q=in_buffer("p1")), tiles={**TILES, "p1": 1}
    ),
    "an input in an inner loop is fetched once for a group of one tile": lambda: case(
        kept(Q=in_buffer("p1")), tiles={**TILES, "p1": 2}
    ),
    "unfinished sums in the buffer are read back": lambda: case(naive_plan(), cascade=naive()),
    "a product below another operation is not summed by multiply_add": multiplied_inside,
    "a running value in registers is kept until its next step": lambda: case(
        kept(RNV=Residence(level=Level.REGISTERS))
    ),
    "sums that go on in registers are kept until their next tile": lambda: case(
        dataclasses.replace(
            naive_plan(), residency={**naive_plan().residency, "SNV": Residence(level=Level.REGISTERS)}
        ),
        cascade=naive(),
        architecture=with_array(registers_per_pe=64),
    ),
    "a stored value is read by the first Einsum of the epoch, not of the text": lambda: case(
        dataclasses.replace(
            kept(SLN=in_buffer("p2")),
            epoch=(PLAN.epoch[0], PLAN.epoch[1], Group(slots=({"2d": ("SLN",), "1d": ("PRM", "SPD")},)),
                   Group(slots=({"2d": ("SLD",)},))),
            offsets={**PLAN.offsets, "SLD": 2},
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", COUNTS)
def test_the_model_counts_as_the_execution_does(what):
    given = COUNTS[what]()
    assert differences(executed(given), priced(given)) == []


def maker_behind() -> Case:
    """Return the packaged plan with a product behind another Einsum of its slot, and the sum in front of its own."""
    first, second = PLAN.epoch[0].slots
    last = PLAN.epoch[2].slots[0]
    plan = dataclasses.replace(
        PLAN,
        epoch=(
            Group(slots=(first, {**second, "1d": ("SPD", "SPNV")})),
            PLAN.epoch[1],
            Group(slots=({**last, "1d": ("PRM",)},)),
        ),
    )
    return case(plan, tiles={**TILES, "p1": 3})


def slots_in_a_circle() -> Case:
    """Return a plan whose alternating slots take up each other's values, so that one of them comes too early."""
    text = (
        "  input  Q[p,e]\n  A[p,e] = Q[p,e] + 1\n  B[p,e] = A[p,e] + 1\n  C[p,e] = B[p,e] + 1\n  D[p,e] = C[p,e] + 1\n"
    )
    slots = ({"1d": ("A", "D")}, {"1d": ("C",)}, {"1d": ("B",)})
    plan = Plan(
        splits={"p": ("p1", "p0")},
        loops=("p1",),
        axes={},
        epoch=(Group(slots=slots),),
        offsets=dict.fromkeys("ABCD", 0),
        residency={"Q": in_buffer("p1"), **dict.fromkeys("ABCD", Residence(level=Level.STREAM))},
    )
    return case(plan, cascade=parse(f"cascade c\n{text}", file="c.ein"), tiles={"p0": 4})


def slower_than_a_turn() -> Case:
    """Return the packaged plan where products and the sums that take them up are equally slow."""
    array = FPGA.arrays["1d"]
    slow = {name: Operator(cycles=2, actions={name: 1}) for name in ("multiply", "add")}
    arrays = {**FPGA.arrays, "1d": dataclasses.replace(array, operators={**array.operators, **slow})}
    return case(architecture=dataclasses.replace(FPGA, arrays=arrays))


UNRUNNABLE = {
    "a running value kept in an inner loop": lambda: case(kept(RD=in_buffer("p1"))),
    "a running value that is streamed": lambda: case(kept(RD=Residence(level=Level.STREAM))),
    "a sum that overtakes a slower product in the other slot": slow_products,
    "a sum that overtakes a product behind another Einsum of its slot": maker_behind,
    "slots that read from each other": slots_in_a_circle,
    "a sum that begins before the first product of two cycles is there": slower_than_a_turn,
    "a result taken up after newer ones took its place": lambda: case(later("AV"), tiles={**TILES, "p1": 1}),
    "a published plan that updates the sum before it is taken up": lambda: case(
        PUBLISHED["+Architecture"], architecture=CLOUD, tiles={**TILES, "p1": 1}
    ),
    "a sum that goes on in a place that other tiles take": lambda: case(
        dataclasses.replace(naive_plan(), residency={**naive_plan().residency, "SD": in_buffer("p1")}), cascade=naive()
    ),
}


@pytest.mark.parametrize("what", UNRUNNABLE)
def test_an_execution_refuses_what_cannot_run(what):
    with pytest.raises(ExecutionError):
        executed((UNRUNNABLE)[what]())


@pytest.mark.parametrize("what", UNRUNNABLE)
def test_the_model_refuses_what_cannot_run(what):
    with pytest.raises(InputError):
        priced(UNRUNNABLE[what]())
