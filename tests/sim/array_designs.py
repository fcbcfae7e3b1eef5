"""Random designs of the spatial attention array, and random jobs for them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.arch import Architecture, load_architecture
from accel.attention_array import AttentionArray, Job, with_stalls
from accel.numerics import FixedPoint
from accel.schedule import Group, Plan, Schedule, load_template

__all__ = ["Design", "design", "inputs", "interleaved_plan", "random_job", "sequential_plan"]

FORMATS = tuple(
    FixedPoint.parse(text)
    for text in (
        "s16f12,nearest_even,saturate",
        "s8f5,nearest_even,saturate",
        "s12f8,nearest_up,saturate",
        "s16f10,truncate,saturate",
        "s6f3,nearest_even,saturate",
    )
)


@dataclass(frozen=True, kw_only=True)
class Design:
    """An array and the architecture that it was made from."""

    unit: AttentionArray
    architecture: Architecture


def interleaved_plan() -> Plan:
    """Return the packaged plan."""
    return load_template("spatial-array-1pass").plan


def sequential_plan() -> Plan:
    """Return another one: each tile is finished before the next, nothing alternates, and the array waits in between."""
    plan = interleaved_plan()
    groups = (
        {"2d": ("BQK", "LM"), "1d": ("AV",)},
        {"1d": ("RM",)},
        {"2d": ("SLN", "SLD"), "1d": ("PRM", "SPD")},
        {"2d": ("SLNV",), "1d": ("SPNV",)},
        {"1d": ("RD", "RNV")},
    )
    return dataclasses.replace(
        plan,
        epoch=tuple(Group(slots=(slot,)) for slot in groups),
        offsets={name: int(name == "AV") for name in plan.offsets},
    )


def design(
    *,
    shape: tuple[int, int],
    dims: tuple[int, int],
    max_length: int,
    tiles: tuple[int, int, int],
    exp_cycles: int = 6,
    weight_fraction_bits: int = 15,
    element: FixedPoint = FORMATS[0],
    plan: Plan | None = None,
) -> Design:
    """Return an array of ``shape`` (R, C) for ``dims`` (E, F) and ``tiles`` (m0, p1, p0), with the stalls it needs."""
    base = load_architecture("fpga-attention-8x8")
    arrays = {}
    for name, array in base.arrays.items():
        steps = {"multiply": exp_cycles, "add": exp_cycles}
        exp = dataclasses.replace(array.operators["exp"], cycles=exp_cycles, actions=steps)
        arrays[name] = dataclasses.replace(
            array,
            rows=shape[0] if name == "2d" else 1,
            columns=shape[1],
            registers_per_pe=64,
            operators={**array.operators, "exp": exp},
        )
    architecture = dataclasses.replace(base, arrays=arrays)
    schedule = Schedule(
        cascade="attention-1pass",
        architecture=base.name,
        tiles={"m0": tiles[0], "p1": tiles[1], "p0": tiles[2]},
        plan=plan or interleaved_plan(),
    )
    unit = AttentionArray.of(
        architecture,
        schedule,
        query_key_dim=dims[0],
        value_dim=dims[1],
        max_length=max_length,
        query_format=element,
        key_format=element,
        value_format=element,
        output_format=element,
        weight_fraction_bits=weight_fraction_bits,
    )
    return Design(unit=with_stalls(unit), architecture=architecture)


def random_job(unit: AttentionArray, source: np.random.Generator) -> Job:
    """Return a job of random lengths, heads and mask."""
    queries, keys = (int(source.integers(1, unit.max_length + 1)) for _ in range(2))
    return Job(queries=queries, keys=keys, heads=int(source.integers(1, 4)), causal=bool(source.integers(2)))


def inputs(unit: AttentionArray, job: Job, source: np.random.Generator) -> tuple[NDArray[np.int64], ...]:
    """Return codes of Q, K and V for a job, some of them at the ends of their range."""
    spread = float(source.choice([0.3, 1.0, 4.0]))
    shapes = (
        (unit.query_format, job.queries, unit.query_key_dim),
        (unit.key_format, job.keys, unit.query_key_dim),
        (unit.value_format, job.keys, unit.value_dim),
    )
    return tuple(
        element.quantize(source.normal(size=(job.heads, length, dim)) * spread) for element, length, dim in shapes
    )
