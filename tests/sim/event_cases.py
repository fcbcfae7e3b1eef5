"""Cases for the event-level simulator, and what its tests ask of them."""

from __future__ import annotations

import dataclasses

import numpy as np

from accel.arch import Architecture, load_architecture
from accel.cascade import load_cascade
from accel.result import Result
from accel.schedule import Group, Level, Plan, Residence, Schedule, load_template
from accel.workload import Workload
from mapping.model import price
from sim.events import Execution, execute, random_inputs
from tests.sim.random_schedules import Case

ATTENTION = load_cascade("attention-1pass")
FPGA = load_architecture("fpga-8x8")
CLOUD = load_architecture("fusemax-cloud")
PLAN = load_template("interleaved-1pass").plan
SMALL = Workload(name="small", batch=1, heads=1, kv_heads=1, queries=12, keys=9, query_key_dim=2, value_dim=3)
TILES = {"m0": 4, "p0": 4, "p1": 2}


def case(plan=PLAN, *, cascade=ATTENTION, architecture=FPGA, tiles=TILES, workload=SMALL) -> Case:
    schedule = Schedule(cascade=cascade.name, architecture=architecture.name, tiles=tiles, plan=plan)
    return Case(cascade=cascade, architecture=architecture, schedule=schedule, workload=workload)


def kept(**homes: Residence) -> Plan:
    return dataclasses.replace(PLAN, residency={**PLAN.residency, **homes})


def with_array(**fields: object) -> Architecture:
    """Return the FPGA with fields of its 2D array replaced."""
    array = dataclasses.replace(FPGA.arrays["2d"], **fields)
    return dataclasses.replace(FPGA, arrays={**FPGA.arrays, "2d": array})


def executed(given: Case, seed: int = 0) -> Execution:
    inputs = random_inputs(given.cascade, given.schedule, given.workload, seed)
    return execute(given.cascade, given.architecture, given.schedule, given.workload, inputs)


def priced(given: Case) -> Result:
    return price(given.cascade, given.architecture, given.schedule, given.workload)


def worst_error(given: Case, execution: Execution, seed: int = 0) -> float:
    """Return the largest difference to the cascade's own evaluation, in which all keys are one tile.

    Where a filter leaves a query no key both must be NaN.
    """
    inputs = random_inputs(given.cascade, given.schedule, given.workload, seed)
    known = given.workload.parameters | {"M0": given.workload.keys}
    sizes = {symbol: size for symbol, size in known.items() if symbol in given.cascade.symbols}
    errors = [0.0]
    for instance in range(given.workload.instances):
        expected = given.cascade.evaluate({name: array[instance] for name, array in inputs.items()}, sizes)
        for name, values in expected.items():
            ours = execution.outputs[name][instance]
            assert np.array_equal(np.isnan(ours), np.isnan(values))
            errors.append(float(np.nanmax(np.abs(ours - values), initial=0.0)))
    return max(errors)


def check_conservation(given: Case, execution: Execution) -> None:
    """Check that what is needed is read, each point computed once, and each stored value read again if anyone wants it.

    Where tiles are skipped, points that a filter leaves must be computed, others of the same tiles may be.
    """
    assert set(execution.unread.values()) <= {0}
    assert set(execution.missed.values()) <= {0}
    tiles = {rank.upper(): size for rank, size in given.schedule.tiles.items()}
    sizes = given.cascade.sizes(given.workload.sizes | given.workload.parameters | tiles)
    filtered = any(einsum.conditions for einsum in given.cascade.einsums)
    for name, points in execution.points.items():
        einsum = given.cascade.einsum(name)
        count = given.workload.instances * given.cascade.points(einsum, sizes)
        assert points >= count if einsum.conditions else points <= count if filtered else points == count
    for name, unused in execution.unused.items():
        readers = [access for einsum in given.cascade.einsums for access in einsum.reads if access.tensor == name]
        running = given.cascade.tensors[name].iterative_rank is not None
        last_is_read = any(access.final_ranks for access in readers)
        assert unused == (given.workload.instances * sizes["P"] if running and not last_is_read else 0)


VECTOR = ("LM", "RM", "SLN", "SLD", "PRM", "SPD", "RD", "SPNV", "RNV", "AV")
PUBLISHED = {
    "+Architecture": dataclasses.replace(
        PLAN,
        epoch=(
            Group(slots=({"2d": ("BQK", "LM"), "1d": ("RD", "AV")},), stall_cycles=256),
            Group(slots=({"1d": ("RM",)},)),
            Group(slots=({"2d": ("SLN", "SLD"), "1d": ("PRM", "SPD")},)),
            Group(slots=({"2d": ("SLNV",), "1d": ("RNV", "SPNV")},)),
        ),
        offsets={name: {"RD": 1, "RNV": 1, "AV": 2}.get(name, 0) for name in PLAN.offsets},
    ),
    "+Cascade": dataclasses.replace(
        PLAN,
        epoch=(Group(slots=({"2d": ("BQK", "SLNV"), "1d": VECTOR},)),),
        offsets={"BQK": 0, "SLNV": 2} | {name: 3 if name in ("SPNV", "RNV", "AV") else 1 for name in VECTOR},
        residency={**PLAN.residency} | dict.fromkeys(("BQK", "SLN"), Residence(level=Level.BUFFER, within="m1")),
    ),
}
"""The plans of FuseMax (arXiv 2406.10491v3, section VI) before its final binding."""
