"""Finding the schedule template that fits the structure of a cascade, whatever its tensors are called."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import permutations

from accel.arch import Architecture
from accel.cascade import Cascade, Einsum, load_cascade
from accel.errors import InputError
from accel.schedule import Group, Plan, load_template, template_names
from mapping.bound import operators

__all__ = ["find_plan", "fitting_plans", "match", "rename"]


def match(reference: Cascade, cascade: Cascade) -> dict[str, str] | None:
    """Return tensors of ``reference`` to those of ``cascade`` that have the same part in it; None if it is another one.

    Einsums may stand in another order and operands may be swapped; rank names must agree. ``cascade`` may have filters
    where ``reference`` has none. Initial values are not compared.
    """
    wanted = [einsum for einsum in reference.einsums if not einsum.is_initial]
    given = [einsum for einsum in cascade.einsums if not einsum.is_initial]
    if len(wanted) != len(given):
        return None
    return next(_matches(tuple(wanted), tuple(given), {}), None)


def _matches(
    wanted: tuple[Einsum, ...], given: tuple[Einsum, ...], names: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Yield every completion of ``names`` that maps all wanted Einsums to given ones."""
    if not wanted:
        yield dict(names)
        return
    first, rest = wanted[0], wanted[1:]
    for index, einsum in enumerate(given):
        for extended in _pairings(first, einsum, names):
            yield from _matches(rest, given[:index] + given[index + 1 :], extended)


def _pairings(wanted: Einsum, given: Einsum, names: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield every extension of ``names`` under which the Einsums compute the same where ``given`` has no filter."""
    if (
        wanted.map_operations != given.map_operations
        or wanted.reduction != given.reduction
        or wanted.output.indices != given.output.indices
        or len(wanted.reads) != len(given.reads)
        or set(wanted.ranks) != set(given.ranks)
        or (wanted.conditions and wanted.conditions != given.conditions)
    ):
        return
    for reads in permutations(given.reads):
        extended = dict(names)
        pairs = [(wanted.output, given.output), *zip(wanted.reads, reads, strict=True)]
        if all(
            one.indices == other.indices and extended.setdefault(one.tensor, other.tensor) == other.tensor
            for one, other in pairs
        ) and len(set(extended.values())) == len(extended):
            yield extended


def rename(plan: Plan, names: Mapping[str, str]) -> Plan:
    """Return the plan with its tensors, and so its Einsums, renamed."""
    return dataclasses.replace(
        plan,
        epoch=tuple(
            Group(
                slots=tuple(
                    {array: tuple(names[name] for name in einsums) for array, einsums in slot.items()}
                    for slot in group.slots
                ),
                stall_cycles=group.stall_cycles,
            )
            for group in plan.epoch
        ),
        offsets={names[name]: offset for name, offset in plan.offsets.items()},
        residency={names[name]: residence for name, residence in plan.residency.items()},
    )


def find_plan(cascade: Cascade, architecture: Architecture | None = None) -> Plan:
    """Return the plan of the first packaged template whose cascade has the structure of ``cascade``.

    Parameters
    ----------
    cascade : Cascade
        The cascade to run.
    architecture : Architecture, optional
        Where it runs: a template whose operators its arrays have comes before one that it cannot run.

    Raises
    ------
    InputError
        No template fits the cascade.
    """
    plans = _plans(cascade)
    if not plans:
        served = [load_template(name).cascade for name in template_names()]
        raise InputError(
            f"cascade {cascade.name!r} must have the structure of a schedule template to be mapped; templates are for "
            f"{', '.join(dict.fromkeys(served))}",
            hint="map one of those, or write a schedule and price it with mapping.model.price",
        )
    # Where none runs, the first says what the architecture lacks.
    return next((plan for plan in plans if architecture is None or _runs(cascade, architecture, plan)), plans[0])


def fitting_plans(cascade: Cascade, architecture: Architecture) -> tuple[Plan, ...]:
    """Return the plan of every packaged template that fits the cascade and whose operators the architecture has."""
    return tuple(plan for plan in _plans(cascade) if _runs(cascade, architecture, plan))


def _plans(cascade: Cascade) -> list[Plan]:
    plans = []
    for name in template_names():
        template = load_template(name)
        names = match(load_cascade(template.cascade), cascade)
        if names is not None:
            plans.append(rename(template.plan, names))
    return plans


def _runs(cascade: Cascade, architecture: Architecture, plan: Plan) -> bool:
    """Return whether the arrays of the architecture have what the plan asks of them."""
    arrays = architecture.arrays
    return all(
        array in arrays and operators(cascade.einsum(name), arrays[array]).keys() <= arrays[array].operators.keys()
        for name, array in plan.binding.items()
    )
