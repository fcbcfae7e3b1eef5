"""What the event-level simulator says of schedules that cannot run, each with the exact text."""

import dataclasses

import numpy as np
import pytest

from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.errors import InputError
from accel.notation import parse
from accel.schedule import Level, Residence, Schedule, load_template
from accel.workload import Workload
from sim.events import execute, random_inputs

CASCADE = load_cascade("attention-1pass")
FPGA = load_architecture("fpga-8x8")
PLAN = load_template("interleaved-1pass").plan
WORKLOAD = Workload(name="w", batch=1, heads=1, kv_heads=1, queries=12, keys=9, query_key_dim=2, value_dim=3)
FILTERED = parse("cascade c\n  input  Q[p,e]  K[m,e]\n  S[p,m] = Q[p,e] * K[m,e] where m <= p\n", file="c.ein")


def run(*, plan=PLAN, architecture=FPGA, cascade=CASCADE, inputs=None, **tiles):
    tiles = {"m0": 4, "p0": 4, "p1": 2, **tiles}
    schedule = Schedule(cascade=cascade.name, architecture=architecture.name, tiles=tiles, plan=plan)
    return execute(cascade, architecture, schedule, WORKLOAD, inputs or random_inputs(cascade, schedule, WORKLOAD))


def offset(name, number):
    return dataclasses.replace(PLAN, offsets={**PLAN.offsets, name: number})


def kept(name, **home):
    return dataclasses.replace(PLAN, residency={**PLAN.residency, name: Residence(**home)})


def with_array(name, registers=16, **cycles):
    array = FPGA.arrays[name]
    slower = {each: dataclasses.replace(array.operators[each], cycles=number) for each, number in cycles.items()}
    array = dataclasses.replace(array, registers_per_pe=registers, operators={**array.operators, **slower})
    return dataclasses.replace(FPGA, arrays={**FPGA.arrays, name: array})


WRONG = {
    "a value that takes longer to make than to take up": lambda: run(architecture=with_array("1d", multiply=3)),
    "a value that is not there yet": lambda: run(plan=offset("SLN", 0)),
    "a value that another one replaced": lambda: run(plan=kept("RD", level=Level.BUFFER, within="p1")),
    "a value that passed by": lambda: run(plan=kept("RD", level=Level.STREAM)),
    "a buffer too small": lambda: run(
        architecture=dataclasses.replace(FPGA, buffer=dataclasses.replace(FPGA.buffer, size_bits=1024))
    ),
    "registers too few": lambda: run(architecture=with_array("2d", registers=5)),
    "a filter on ranks that are all written out": lambda: run(cascade=FILTERED, inputs={"Q": 0}),
    "an input of another shape": lambda: run(inputs={"Q": np.zeros((1, 2, 2))}),
}
TEXTS = {
    "a value that takes longer to make than to take up": (
        "'RNV' must read SPNV[p,m1,f] of tile 0 after it is made, but reads it in cycle 33 and it is made by cycle 37; "
        "raise the offset of 'RNV'"
    ),
    "a value that is not there yet": (
        "'SLN' must read RM[p,m1+1] of tile 0 after it is made, but in cycle 3 it is not there yet; raise the offset "
        "of 'SLN'"
    ),
    "a value that another one replaced": (
        "'SPD' must read RD[p,m1] of tile 2 while it is kept, but in cycle 61 'RD' has newer values in its place; keep "
        "'RD' within an outer loop or in more copies, or lower the offset of its reader"
    ),
    "a value that passed by": (
        "'SPD' must read RD[p,m1] of tile 2 while it is kept, but in cycle 61 'RD' has passed by; keep 'RD' within an "
        "outer loop or in more copies, or lower the offset of its reader"
    ),
    "a buffer too small": (
        "the buffer must hold 1152 bits in cycle 36 (Q 256, K 128, RM 256, V 256, RNV 256), but has 1024; lower a tile "
        "size"
    ),
    "registers too few": (
        "a PE of array '2d' must hold 3 values in cycle 7, but has 2 registers for them; lower a tile size or raise "
        "registers_per_pe"
    ),
    "a filter on ranks that are all written out": (
        "a filter must mention a split rank that no output has for empty tiles to be skipped, but none of those of "
        "cascade 'c' does; set masked_tiles: run in the plan"
    ),
    "an input of another shape": (
        "input 'Q' must have shape (1, 12, 2), not (1, 2, 2); give one array for each instance, stacked"
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_run_is_refused_with_the_way_out(case):
    with pytest.raises(InputError) as caught:
        WRONG[case]()
    assert str(caught.value) == TEXTS[case]
