"""Random small architectures, cascades, schedules and workloads for the event-level simulator."""

from __future__ import annotations

import dataclasses
import random
import re
from dataclasses import dataclass

from accel.arch import Architecture, InnerBuffer, Operator, PipelineFill, load_architecture
from accel.cascade import Cascade, load_cascade
from accel.errors import InputError
from accel.notation import parse
from accel.schedule import (
    INSTANCE,
    Axis,
    Group,
    Level,
    LevelStore,
    MaskedTiles,
    Plan,
    Residence,
    Schedule,
    load_template,
)
from accel.workload import Workload
from mapping.bound import bind
from mapping.inner import level_occupancy_bits
from mapping.legal import order_problems, problems
from mapping.tiling import Tiling

OPERATORS = ("multiply_add", "multiply", "add", "subtract", "max", "exp", "divide")
ATTENTION = load_cascade("attention-1pass")
TEMPLATE = load_template("interleaved-1pass").plan
BASES = (load_architecture("fpga-8x8"), load_architecture("fusemax-cloud"))
PROJECTED = parse(
    """cascade projected
  input  X[p,e]  W[e,f]  B[f]
  Y[p,f] = X[p,e] * W[e,f]
  Z[p,f] = max(Y[p,f] + B[f], 0)
""",
    file="projected.ein",
)
ONE_KEY_TILE = tuple(
    load_cascade(name)
    for name in ("attention-3pass", "attention-3pass-deferred", "attention-naive", "attention-naive-deferred")
)
FILTERED_SUMS = parse(
    """cascade filtered-sums
  input  Q[p,e]  K[m,e]  V[m,f]
  QK[p,m]  = Q[p,e] * K[m,e]         where 2*m <= p + 2*M - P
  SN[p,m]  = exp(QK[p,m])            where 2*m <= p + 2*M - P
  SD[p]    = SN[p,m]
  SNV[p,f] = SN[p,m] * V[m,f]
  AV[p,f]  = SNV[p,f] / SD[p]
""",
    file="filtered.ein",
)
MASKED = (load_cascade("attention-1pass-causal"), load_cascade("attention-1pass-window"), FILTERED_SUMS)


@dataclass(frozen=True, kw_only=True)
class Case:
    """All that the model and the simulator are given."""

    cascade: Cascade
    architecture: Architecture
    schedule: Schedule
    workload: Workload


def architecture(rng: random.Random, *, cheap_sums: bool) -> Architecture:
    """Return small arrays with operators of different costs; with ``cheap_sums`` all steps of a recurrence cost one."""
    base = rng.choice(BASES)

    def operator(name: str) -> Operator:
        plain = cheap_sums and name in ("multiply", "add", "max")
        slow = name in ("exp", "subtract_exp")
        cycles = 1 if plain else rng.choice([1, 1, 2, 3]) + (3 if slow else 0)
        known = base.arrays["1d"].operators["exp" if slow else name]
        return dataclasses.replace(known, cycles=cycles)

    names = OPERATORS if rng.random() < 0.7 else (*OPERATORS, "subtract_exp")
    arrays = {
        name: dataclasses.replace(
            base.arrays[name],
            rows=rng.randint(1, 4) if name == "2d" else 1,
            columns=rng.randint(1, 4),
            registers_per_pe=4000,
            operators={each: operator(each) for each in names},
        )
        for name in ("2d", "1d")
    }
    return dataclasses.replace(
        base,
        arrays=arrays,
        buffer=dataclasses.replace(base.buffer, size_bits=base.buffer.row_bits * 4096, row_bits=base.buffer.row_bits),
        dram=dataclasses.replace(base.dram, word_bits=rng.choice([16, 64])),
        pipeline_fill=rng.choice(list(PipelineFill)),
        memory_overlaps_compute=rng.random() < 0.7,
    )


def workload(rng: random.Random) -> Workload:
    kv_heads = rng.choice([1, 1, 2])
    return Workload(
        name="small",
        batch=rng.choice([1, 1, 2]),
        heads=kv_heads * rng.choice([1, 1, 2]),
        kv_heads=kv_heads,
        queries=rng.choice([1, *range(2, 13)]),
        keys=rng.randint(1, 13),
        query_key_dim=rng.randint(1, 4),
        value_dim=rng.randint(1, 4),
        window=rng.choice([None, 1, 2, 5]),
    )


def epoch(rng: random.Random, names: list[str]) -> tuple[Group, ...]:
    """Return the Einsums dealt out to groups, slots and arrays, roughly in their order."""
    places = sorted(rng.randrange(rng.randint(1, 5)) for _ in names)
    shuffled = sorted(names, key=lambda name: names.index(name) + rng.uniform(-4, 4))
    groups = []
    for place in sorted(set(places)):
        slots: list[dict[str, tuple[str, ...]]] = [{} for _ in range(rng.choice([1, 1, 2, 3]))]
        for name, at in zip(shuffled, places, strict=True):
            if at == place:
                slot, array = rng.choice(slots), rng.choice(["2d", "1d"])
                slot[array] = (*slot.get(array, ()), name)
        filled = tuple(slot for slot in slots if slot)
        groups.append(Group(slots=filled, stall_cycles=rng.choice([0, 0, 1, 5])))
    return tuple(groups)


def residency(rng: random.Random, cascade: Cascade, loops: tuple[str, ...]) -> dict[str, Residence]:
    """Return homes: running values in the buffer, inputs there or streamed, the others anywhere."""
    found = {}
    inputs = {tensor.name for tensor in cascade.inputs}
    for tensor in cascade.tensors.values():
        within = rng.choice((INSTANCE, *loops))
        copies = rng.choice([1, 1, 2])
        if tensor.name in inputs:
            level = rng.choice([Level.BUFFER, Level.BUFFER, Level.BUFFER, Level.STREAM])
        elif tensor.iterative_rank is not None:
            level, within = Level.BUFFER, rng.choice((INSTANCE, loops[0]))
        else:
            level = rng.choice([Level.REGISTERS, Level.STREAM, Level.STREAM, Level.BUFFER])
        found[tensor.name] = (
            Residence(level=level, within=within, copies=copies) if level is Level.BUFFER else Residence(level=level)
        )
    return found


def plan(rng: random.Random, cascade: Cascade, *, keys: bool) -> Plan:
    """Return a plan whose offsets are still all 0."""
    splits = {"m": ("m1", "m0")} if keys else {}
    splits["p"] = rng.choice([("p2", "p1", "p0"), ("p2", "p1", "p0"), ("p1", "p0")])
    queues = [list(parts[:-1]) for parts in splits.values()]
    loops: list[str] = []
    while any(queues):
        loops.append(rng.choice([queue for queue in queues if queue]).pop(0))
    tiles = [parts[-1] for parts in splits.values()]
    axes = dict(zip(rng.sample(tiles, rng.randint(0, len(tiles))), rng.sample(list(Axis), 2), strict=False))
    names = [einsum.name for stage in cascade.stages for einsum in stage.einsums if not einsum.is_initial]
    return Plan(
        splits=splits,
        loops=tuple(loops),
        axes=axes,
        epoch=epoch(rng, names),
        offsets=dict.fromkeys(names, 0),
        residency=residency(rng, cascade, tuple(loops)),
        masked_tiles=MaskedTiles.RUN if rng.random() < 0.15 else MaskedTiles.SKIPPED,
    )


def legalised(case: Case) -> Case | None:
    """Return the case with offsets raised until the model finds no Einsum too early; None if that does not end."""
    for _ in range(60):
        tiling = Tiling(
            bound=bind(case.cascade, case.architecture, case.schedule.plan),
            tiles=case.schedule.tiles,
            workload=case.workload,
        )
        found = list(order_problems(tiling))
        if not found:
            return None if problems(tiling) else case
        offsets = dict(case.schedule.plan.offsets)
        for problem in found:
            raised = re.match(r"raise the offset of '(\w+)' to (\d+)", problem.hint or "")
            if raised is None:
                return None
            offsets[raised[1]] = max(offsets[raised[1]], int(raised[2]))
        changed = dataclasses.replace(case.schedule.plan, offsets=offsets)
        case = dataclasses.replace(case, schedule=dataclasses.replace(case.schedule, plan=changed))
    return None


def draw(rng: random.Random, *, masked: bool = False) -> Case | None:
    """Return a random case that the model takes as legal, with filters if asked for; None if the first draw is none."""
    kinds = ["template", "attention", "attention", "attention"] + ([] if masked else ["one key tile", "projected"])
    kind = rng.choice(kinds)
    cascade = {"one key tile": rng.choice(ONE_KEY_TILE), "projected": PROJECTED}.get(kind, ATTENTION)
    if masked:
        cascade = rng.choice(MASKED[:2] if kind == "template" else MASKED)
    built, sizes = architecture(rng, cheap_sums=kind == "template"), workload(rng)
    how = TEMPLATE if kind == "template" else plan(rng, cascade, keys=kind != "projected")
    tiles = {
        part: rng.randint(1, 6 if part in ("m0", "p0") else 3) for parts in how.splits.values() for part in parts[1:]
    }
    if kind == "one key tile":
        tiles["m0"] = sizes.keys + rng.randint(0, 3)
    schedule = Schedule(cascade=cascade.name, architecture=built.name, tiles=tiles, plan=how)
    if sizes.instances * sizes.sizes["P"] * sizes.keys > 60 * tiles["p0"] * tiles.get("m0", sizes.keys):
        return None
    try:
        return legalised(Case(cascade=cascade, architecture=built, schedule=schedule, workload=sizes))
    except InputError:
        return None


def levelled(rng: random.Random, case: Case) -> Case:
    """Return a case whose architecture has inner levels, each as large as it must be, and ports on its memories.

    Inputs in the buffer are kept in some of them, each within the loop of the level around it or one further in.
    """
    names = [f"level{number}" for number in range(rng.randint(1, 3))]
    base, chosen = case.architecture, case.schedule.plan
    levels = {name: _level(rng, base) for name in names}
    read_on = {tensor.name: _arrays_of(case, tensor.name) for tensor in case.cascade.inputs}
    homes = dict(chosen.residency)
    order = (INSTANCE, *chosen.loops)
    for tensor, arrays in read_on.items():
        if homes[tensor].level is not Level.BUFFER:
            continue
        least, kept = order.index(homes[tensor].within), {}
        for name in names:
            if rng.random() < 0.6 and levels[name].array in (None, *arrays):
                least = rng.randrange(least, len(order))
                within = None if least == 0 and rng.random() < 0.5 else order[least]
                kept[name] = LevelStore(within=within, copies=rng.choice([1, 1, 2]))
        homes[tensor] = dataclasses.replace(homes[tensor], levels=kept)
    buffer = base.buffer
    if rng.random() < 0.5:
        buffer = dataclasses.replace(buffer, ports=rng.choice([1, 2]), banks=rng.choice([None, 2]))
    schedule = dataclasses.replace(case.schedule, plan=dataclasses.replace(chosen, residency=homes))
    built = dataclasses.replace(base, levels=levels, buffer=buffer)
    tiling = Tiling(bound=bind(case.cascade, built, schedule.plan), tiles=schedule.tiles, workload=case.workload)
    tight = {}
    for name, parts in level_occupancy_bits(tiling).items():
        row_bits, banks = levels[name].row_bits, levels[name].banks or 1
        rows = max(-(-sum(parts.values()) // row_bits), 1)
        tight[name] = dataclasses.replace(levels[name], size_bits=-(-rows // banks) * banks * row_bits)
    return dataclasses.replace(case, schedule=schedule, architecture=dataclasses.replace(built, levels=tight))


def _level(rng: random.Random, base: Architecture) -> InnerBuffer:
    ports = rng.choice([None, 1, 1, 2])
    return InnerBuffer(
        size_bits=2**40,
        row_bits=2 ** rng.randint(2, 6),
        component=base.buffer.component,
        array=rng.choice([None, *base.arrays]),
        ports=ports,
        banks=rng.choice([None, None, 2, 4]),
    )


def _arrays_of(case: Case, tensor: str) -> set[str]:
    binding = case.schedule.plan.binding
    readers = (e for e in case.cascade.einsums if any(access.tensor == tensor for access in e.reads))
    return {binding[einsum.name] for einsum in readers}
