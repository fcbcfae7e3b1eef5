"""Wrong inner levels in schedules and architectures, each with the exact text that a user sees."""

import dataclasses

import pytest

from accel.arch import InnerBuffer, load_architecture
from accel.cascade import load_cascade
from accel.errors import InputError
from accel.notation import parse
from accel.schedule import Group, Level, LevelStore, Plan, Residence, Schedule, load_template
from accel.workload import Workload
from mapping.model import price
from sim.events import execute, random_inputs

CASCADE = load_cascade("attention-1pass")
BUFFERS = load_architecture("edge-operand-buffers")
PLAN = load_template("interleaved-1pass").plan
WORK = Workload(name="w", batch=1, heads=1, kv_heads=1, queries=256, keys=256, query_key_dim=64, value_dim=64)


def message_of(action):
    with pytest.raises(InputError) as caught:
        action()
    return str(caught.value)


def kept(tensor, level, within="m1", **store):
    """Return the plan with one tensor kept in a level."""
    store = LevelStore(within=within, **store)
    home = dataclasses.replace(PLAN.residency[tensor], levels={level: store})
    return dataclasses.replace(PLAN, residency={**PLAN.residency, tensor: home})


def priced(plan=PLAN, architecture=BUFFERS, **tiles):
    sizes = {"m0": 32, "p0": 32, "p1": 4} | tiles
    return price(
        CASCADE, architecture, Schedule(cascade=CASCADE.name, architecture=BUFFERS.name, tiles=sizes, plan=plan), WORK
    )


def resized(level, rows):
    changed = dataclasses.replace(BUFFERS.levels[level], size_bits=512 * rows, banks=None)
    return dataclasses.replace(BUFFERS, levels={**BUFFERS.levels, level: changed})


REFUSED = {
    "a level too small for the tiles that pass": (
        lambda: priced(architecture=resized("operands", 150)),
        (
            "level 'operands' must hold 98304 bits (Q 32768, K 32768, V 32768), but has 76800 for them: 21504 too few; "
            "lower m0 to 21"
        ),
    ),
    "a level too small for what it keeps": (
        lambda: priced(kept("Q", "operands", "p2", copies=2), resized("operands", 512)),
        (
            "level 'operands' must hold 327680 bits (Q 262144, K 32768, V 32768), but has 262144 for them: 65536 "
            "too few; lower p1 to 3"
        ),
    ),
    "a level too small for anything": (
        lambda: priced(architecture=resized("operands", 1), m0=1, p0=1, p1=1),
        (
            "level 'operands' must hold 3072 bits (Q 1024, K 1024, V 1024), but has 512 for them: 2560 too few; "
            "enlarge level 'operands'"
        ),
    ),
    "a level that is not there": (
        lambda: priced(kept("K", "operand")),
        (
            "tensor 'K' must be kept in levels of architecture 'edge-operand-buffers', but 'operand' is none; "
            "did you mean 'operands'?"
        ),
    ),
    "levels where the architecture has none": (
        lambda: priced(kept("K", "operands"), dataclasses.replace(BUFFERS, levels={}, sources={})),
        (
            "tensor 'K' must be kept in levels of architecture 'edge-operand-buffers', but 'operands' is none; the "
            "architecture has none: remove levels"
        ),
    ),
    "a running value": (
        lambda: priced(kept("RNV", "accumulators")),
        (
            "a level must keep an input of the cascade, but 'accumulators' is to keep 'RNV', which changes; "
            "remove it: the tiles of the tensor pass through the level all the same"
        ),
    ),
    "a level of another array": (
        lambda: priced(kept("K", "accumulators")),
        (
            "level 'accumulators' must serve an array that reads tensor 'K', but serves '1d' and it is read on "
            "2d; leave the level out for this tensor"
        ),
    ),
    "longer than the buffer": (
        lambda: priced(kept("K", "operands", None)),
        (
            "level 'operands' must keep 'K' no longer than the buffer, which keeps it within 'm1', but keeps it within "
            "'instance'; use within: m1"
        ),
    ),
    "a loop that is not there": (
        lambda: kept("K", "operands", "m2"),
        "within must name a loop, but 'm2' is none; known: instance, m1, p1, p2",
    ),
    "levels of a stream": (
        lambda: Residence(level=Level.STREAM, levels={"operands": LevelStore()}),
        "levels must be given for level buffer and for no other, but level is stream; remove levels",
    ),
    "no copy": (lambda: LevelStore(copies=0), "copies must be at least 1, not 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_levels_are_refused(case):
    action, expected = REFUSED[case]
    assert message_of(action) == expected


def test_a_level_may_keep_no_longer_than_one_around_it():
    outer = InnerBuffer(size_bits=2**20, row_bits=512, component="sram-8KiB", array="2d")
    both = dataclasses.replace(BUFFERS, levels={"outer": outer, **BUFFERS.levels})
    stores = {"outer": LevelStore(within="p1"), "operands": LevelStore(within="m1")}
    home = dataclasses.replace(PLAN.residency["K"], levels=stores)
    plan = dataclasses.replace(PLAN, residency={**PLAN.residency, "K": home})
    assert message_of(lambda: priced(plan, both)) == (
        "level 'operands' must keep 'K' no longer than level 'outer', which keeps it within 'p1', but keeps it within "
        "'m1'; use within: p1"
    )


def test_an_input_that_two_einsums_read_first_in_turn_cannot_be_kept():
    cascade = parse(
        "cascade twice\n  input X[p,e] W[m,e]\n  Y[p] = X[p,e] + 1\n  Z[p,m] = X[p,e] * W[m,e]\n", file="twice.ein"
    )
    home = Residence(level=Level.BUFFER, within="p1", levels={"operands": LevelStore(within="p1")})
    plan = Plan(
        splits={"p": ("p1", "p0"), "m": ("m1", "m0")},
        loops=("p1", "m1"),
        axes={},
        epoch=(Group(slots=({"1d": ("Y",), "2d": ("Z",)},)),),
        offsets={"Y": 0, "Z": 0},
        residency={
            "X": home,
            "W": Residence(level=Level.STREAM),
            "Y": Residence(level=Level.STREAM),
            "Z": Residence(level=Level.STREAM),
        },
    )
    schedule = Schedule(cascade="twice", architecture=BUFFERS.name, tiles={"p0": 4, "m0": 4}, plan=plan)
    assert message_of(lambda: price(cascade, BUFFERS, schedule, WORK)) == (
        "X[p,e] must be read first by the same Einsum for every tile to be kept in a level, but is by 'Y' for some and "
        "by 'Z' for others; remove levels for this tensor"
    )


def test_an_execution_refuses_a_level_that_overflows():
    small = dataclasses.replace(WORK, queries=32, keys=32, query_key_dim=4, value_dim=4)
    schedule = Schedule(cascade=CASCADE.name, architecture=BUFFERS.name, tiles={"m0": 32, "p0": 32, "p1": 1}, plan=PLAN)
    inputs = random_inputs(CASCADE, schedule, small)
    message = message_of(lambda: execute(CASCADE, resized("operands", 7), schedule, small, inputs))
    assert message == (
        "level 'operands' must hold 4096 bits in cycle 0 (Q 2048, K 2048), but has 3584; lower a tile size"
    )
