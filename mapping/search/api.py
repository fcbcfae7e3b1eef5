"""The searches: the best schedule of a map space, its Pareto front, and the space itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from accel.arch import Architecture
from accel.cascade import Cascade
from accel.cost import CostTable, load_cost_table
from accel.errors import InputError
from accel.result import Result
from accel.schedule import Plan
from accel.workload import Workload
from mapping.bound import Bound, bind
from mapping.legal import problems
from mapping.model import price_tiling
from mapping.search.certificate import Dimension, Floor, Front, Objective, SearchResult
from mapping.search.engine import ROUNDING, Search, Watch
from mapping.search.fixed import improve, nothing_fits, search_tiles
from mapping.search.form import AXES, Form
from mapping.search.forms import forms_of
from mapping.search.front import FrontSearch
from mapping.search.mapspace import Limits, MapSpace
from mapping.search.node import Node
from mapping.search.sizes import Branch, check_fixed
from mapping.templates import fitting_plans

__all__ = ["front", "map_space", "search"]

FEW_POINTS = 100
"""With a budget below this the templates are not looked at, which would break it."""

TEMPLATE_POINTS = 64
"""Schedules of one template that are built at most."""

NEAR = 1e-3
"""A schedule that may be beaten by no more than this is not compared with the templates."""


def search(
    cascade: Cascade,
    architecture: Architecture,
    workload: Workload,
    objective: Objective | str = Objective.LATENCY,
    *,
    plan: Plan | None = None,
    tiles: Mapping[str, int] | None = None,
    costs: CostTable | None = None,
    limits: Limits | None = None,
    watch: Watch | None = None,
) -> SearchResult:
    """Return the best schedule of the map space (docs/search.md).

    Parameters
    ----------
    cascade, architecture, workload
        What is computed, on what, at which sizes. A cascade that needs several passes over the keys runs in the form
        in one pass that algebra derives from it, or as given with all keys of its rows in one tile, whichever is
        better; the schedule names the form.
    objective : Objective
        What to minimise.
    plan : Plan, optional
        Loops, binding and software pipeline, to search tile sizes alone; by default all of them are searched.
    tiles : mapping of str to int, optional
        Tile sizes to keep fixed. With a plan and all of them fixed the space is one point, priced as ``price`` does.
    costs : CostTable, optional
        Energies; by default the table that the architecture names.
    limits : Limits, optional
        How large the space is, and how long the search may take.
    watch : callable, optional
        Called with a ``Progress`` for each choice of axes and tile.

    Raises
    ------
    InputError
        The cascade has no rank of rows or an operator that no array has, the plan does not fit cascade and
        architecture, a fixed tile size is unknown or below 1, or no schedule of the space is legal: then the message
        says what binds the closest one and by how much.
    """
    chosen = _objective(objective)
    table = costs or load_cost_table(architecture.technology)
    if plan is not None:
        return search_tiles(bind(cascade, architecture, plan), workload, chosen, dict(tiles or {}), table)
    states: list[Search] = []
    for space in _spaces(cascade, architecture, workload, tiles, limits):
        states.append(Search(space, chosen, table, watch, states[-1] if states else None))
        states[-1].run()
    return _answer(states, dict(tiles or {}))


def _answer(states: list[Search], tiles: Mapping[str, int]) -> SearchResult:
    """Return the best of the searches of all forms, each of which had to beat those before it."""
    state = next((each for each in reversed(states) if each.best_point is not None), None)
    if state is None:
        raise _none_legal(states[0])
    _interleave(state)
    limits, total = state.limits, sum(each.space.points for each in states)
    value, left_open = state.best_key[0], min(each.bound for each in states)
    optimal = left_open >= value * (1 - ROUNDING)
    bound = value if optimal else left_open
    near = bound >= value * (1 - NEAR) or (limits.points is not None and limits.points < FEW_POINTS)
    result, more = (state.best, 0) if near else _with_templates(state, tiles)
    assert result is not None
    priced, illegal = sum(each.priced for each in states), sum(each.illegal for each in states)
    floors = [(_arrays_floor(each), each.floor) for each in states]
    return SearchResult(
        objective=state.objective,
        result=result,
        space=state.space.values(),
        points_considered=total,
        points_illegal=illegal,
        points_pruned=total - illegal - priced,
        points_priced=priced + more,
        floors=tuple(min(kind, key=lambda floor: floor.cycles) for kind in zip(*floors, strict=True)),
        optimal=optimal,
        proven_bound=min(bound, state.objective.value_of(result.latency_cycles, result.energy_pj)),
        cascade=state.form.cascade,
    )


def _objective(objective: Objective | str) -> Objective:
    known = [each.value for each in Objective]
    if objective not in known:
        raise InputError(
            f"the objective must be one of {', '.join(known)}, not {str(objective)!r}",
            hint="use latency",
        )
    return Objective(objective)


def _spaces(
    cascade: Cascade,
    architecture: Architecture,
    workload: Workload,
    tiles: Mapping[str, int] | None,
    limits: Limits | None,
) -> tuple[MapSpace, ...]:
    """Return the map space of each form of a cascade."""
    fixed, found = dict(tiles or {}), list[MapSpace]()
    for own, whole_keys in forms_of(cascade):
        form = Form(cascade=own, architecture=architecture, whole_keys=whole_keys)
        check_fixed(form.splits, fixed)
        if whole_keys and found and fixed.get(form.digits[-1], math.inf) < workload.sizes[form.key.upper()]:
            continue  # the tile that is asked for is for the form in one pass
        found.append(MapSpace(form, workload, fixed, limits or Limits()))
    return tuple(found)


def _with_templates(state: Search, tiles: Mapping[str, int]) -> tuple[Result, int]:
    """Return the best of what a search with an open end found and of the templates, and how many more were priced.

    A template is a plan of the space that somebody thought about: no search that stops early may end above it.
    """
    cascade, architecture = state.form.cascade, state.form.architecture
    best, priced = state.best, 0
    assert best is not None
    for plan in fitting_plans(cascade, architecture):
        try:
            bound = bind(cascade, architecture, plan)
            check_fixed(plan.splits, tiles)
        except InputError:  # a template for other names of ranks
            continue
        if dict(plan.splits) == dict(state.form.splits):
            best, more = improve(bound, best, state.objective, _branches(state, bound), state.costs, TEMPLATE_POINTS)
            priced += more
    return best, priced


def _branches(state: Search, bound: Bound) -> Iterator[Branch]:
    """Yield the tile sizes of the space for a template, those with the least compute cycles first."""
    form, space = state.form, state.space
    parts = form.digits[-1], form.rows[-1]
    axes = bound.plan.axes.get(parts[0]), bound.plan.axes.get(parts[1])
    if axes[0] is None or axes[1] is None or len(bound.plan.axes) != len(parts):
        return
    array = {name: form.arrays.index(where) for name, where in bound.plan.binding.items()}
    found = []
    for sizes in product(space.sizes(axes[0], keys=True), space.sizes(axes[1], keys=False)):
        loads = Node(state.references, (axes[0], axes[1]), sizes).loads
        slots = (
            max(
                (sum(int(loads[form.index[name], array[name]]) for name in names) for names in slot.values()), default=0
            )
            for group in bound.plan.epoch
            for slot in group.slots
        )
        found.append((sum(slots), sizes))
    for _, sizes in sorted(found):
        counts = space.counts(sizes[1])
        yield Branch(points=tuple({parts[0]: sizes[0], form.rows[1]: count, parts[1]: sizes[1]} for count in counts))


def _interleave(state: Search) -> None:
    """Let neighbouring stages of the best schedule alternate cycle by cycle where that is legal and costs nothing.

    The model charges both alike, but a stage that alternates with another hides the latency of its own results. The
    fewest groups win, then the first in lexicographic order.
    """
    point = state.best_point
    assert point is not None and state.best is not None
    stages = len(point.pipeline.groups)
    for groups in sorted(_groupings(stages), key=lambda each: (each[-1], each)):
        if groups == point.pipeline.groups:
            return
        distance = point.node.distance(point.kept.tiles[state.form.rows[1]])
        for offsets in state.form.alternating_offsets(point.pipeline, groups, distance):
            pipeline = dataclasses.replace(point.pipeline, groups=groups, offsets=offsets)
            other = dataclasses.replace(point, pipeline=pipeline)
            tiling = state.tiling(other)
            if problems(tiling):
                continue
            result = price_tiling(tiling, state.costs)
            if state.key(result) <= state.best_key:
                state.best, state.best_point = result, other
                return


def _groupings(stages: int) -> Iterator[tuple[int, ...]]:
    """Yield the group of each stage for every way to put stages into groups of one or two neighbours."""
    if stages == 0:
        yield ()
        return
    for size in (1, 2):
        if size <= stages:
            for rest in _groupings(stages - size):
                yield (0,) * size + tuple(group + 1 for group in rest)


def _none_legal(state: Search) -> InputError:
    """Return the error that says what binds one of the smallest schedules."""
    space = state.space
    sizes = min((sizes for _, sizes in space.nodes()), key=lambda each: (each[0] * each[1], each))
    node = Node(state.references, AXES[0], sizes)
    if not space.form.whole_keys:
        return nothing_fits(node.tiling(space.counts(sizes[1])[0]))
    way_out = f"enlarge the buffer, which must hold all {space.keys} keys of a row; or price a nest (docs/nests.md)"
    return nothing_fits(node.tiling(space.counts(sizes[1])[0], buffered=True), way_out)


def _arrays_floor(state: Search) -> Floor:
    """Return the latency that no binding goes below, all points spread evenly over all PEs of their array."""
    references = state.references
    points = np.array([references.least_points(step) for step in range(len(state.form.steps))], dtype=np.float64)
    pes = np.array([shape.pes for shape in references.shapes], dtype=np.float64)
    cycles = references.costs.point_cycles * points[:, None] / pes
    loads = np.stack([on @ cycles[:, array] for array, on in enumerate(state.configurations.bindings)], axis=1)
    return Floor(resource="arrays", cycles=float(loads.max(axis=1).min()))


def front(
    cascade: Cascade,
    architecture: Architecture,
    workload: Workload,
    *,
    tiles: Mapping[str, int] | None = None,
    costs: CostTable | None = None,
    limits: Limits | None = None,
    watch: Watch | None = None,
) -> Front:
    """Return the schedules that no other beats in latency, energy and occupancy of the buffer together.

    Parameters and errors are those of ``search``; of several forms the first is searched. Of schedules equal in all
    three the first found stands.
    """
    table = costs or load_cost_table(architecture.technology)
    space = _spaces(cascade, architecture, workload, tiles, limits)[0]
    state = FrontSearch(space, Objective.LATENCY, table, watch)
    state.run()
    if not state.points:
        raise _none_legal(state)
    total = space.points
    return Front(
        results=tuple(each.result for each in sorted(state.points, key=lambda each: each.measures)),
        points_considered=total,
        points_illegal=state.illegal,
        points_pruned=total - state.illegal - state.priced,
        points_priced=state.priced,
        complete=state.complete,
    )


def map_space(
    cascade: Cascade,
    architecture: Architecture,
    workload: Workload,
    *,
    tiles: Mapping[str, int] | None = None,
    limits: Limits | None = None,
) -> tuple[tuple[Dimension, ...], int]:
    """Return the dimensions of the map space and how many schedules it holds; errors as ``search``.

    Of several forms the dimensions are those of the first, and the schedules those of all.
    """
    spaces = _spaces(cascade, architecture, workload, tiles, limits)
    names = (
        each.form.cascade.name + (f", a tile holds all keys: {each.points:,}" if each.form.whole_keys else "")
        for each in spaces
    )
    forms = Dimension(name="form", unconstrained=len(spaces), size=len(spaces), options="; ".join(names))
    return (forms, *spaces[0].dimensions()), sum(each.points for each in spaces)
