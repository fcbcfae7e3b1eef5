"""Runs a derived cascade against its source on random, equal, huge and one-hot inputs; and counts operations."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from accel.cascade import Cascade
from accel.errors import EinRTLError, InputError

__all__ = ["TOLERANCE", "Check", "SelfCheckError", "check", "operations", "same_extent"]

Arrays: TypeAlias = dict[str, np.ndarray[Any, np.dtype[Any]]]

TOLERANCE = 1e-9
"""Largest difference from the source in float64, relative to the largest magnitude of the output."""

_TOLERANCE_SINGLE = 2e-3
_ROOM = 30.0
_DRAWS = 4
_ULPS = 4.0
_TILE = 4
_TILES = 3
_PLAIN_SIZES = (3, 5, 2, 7)
_HUGE = 1e4


class SelfCheckError(EinRTLError):
    """A derived cascade does not compute what its source computes: a bug of the derivation, never of its user."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True, kw_only=True)
class Check:
    """What the comparison found.

    Parameters
    ----------
    max_relative_error : float
        Largest difference in float64 over all inputs, relative to the largest magnitude of the output.
    max_relative_error_single : float
        The same in float32 on adversarial inputs, against float64.
    cases : int
        Number of inputs compared.
    ill_conditioned : int
        Inputs on which the source itself moves by more than the tolerance when its inputs move by one rounding error;
        there a difference of that size is allowed, and left out of ``max_relative_error``.
    source_overflows : int
        Adversarial inputs on which the source, as it stands, gives infinities or NaN even in float64; there the
        shifted source is the reference.
    """

    __pydantic_config__ = {"extra": "forbid"}

    max_relative_error: float
    max_relative_error_single: float
    cases: int
    ill_conditioned: int
    source_overflows: int


def check(source: Cascade, stable: Cascade, derived: Cascade, rank: str) -> Check:
    """Compare ``derived`` with ``source``.

    Parameters
    ----------
    source : Cascade
        The cascade as given.
    stable : Cascade
        The same with shifted exponentials; equal to ``source`` where nothing is shifted.
    derived : Cascade
        What the derivation made of it.
    rank : str
        The rank of the derivation.

    Raises
    ------
    SelfCheckError
        They differ by more than ``TOLERANCE`` in float64, or in float32 by far more than the source itself.
    InputError
        No input was found on which the source is finite.
    """
    sizes = small_sizes(source, derived, rank)
    positive = _domain(source, stable, sizes)
    worst, single, cases, ill, overflows = 0.0, 0.0, 0, 0, 0
    for label, inputs in _inputs(source, rank, sizes, positive):
        truth, safe = _truth(source, stable, inputs, sizes)
        overflows += not safe
        cases += 1
        noise = _noise(stable, inputs, sizes, truth)
        ill += noise > TOLERANCE
        error = _compare(truth, derived.evaluate(inputs, sizes), max(TOLERANCE, noise), label, derived)
        worst = max(worst, error if noise <= TOLERANCE else 0.0)
        room = _single_room(stable, inputs, sizes, truth)
        error = _compare(truth, derived.evaluate(inputs, sizes, "float32"), room, f"{label}, float32", derived)
        single = max(single, error if room <= _TOLERANCE_SINGLE else 0.0)
    return Check(
        max_relative_error=worst,
        max_relative_error_single=single,
        cases=cases,
        ill_conditioned=ill,
        source_overflows=overflows,
    )


def _noise(stable: Cascade, inputs: Arrays, sizes: Mapping[str, int], truth: Arrays) -> float:
    """Return by how much the source moves, relatively, when each input moves by a rounding error; with some room."""
    rng = np.random.default_rng(10)
    worst = 0.0
    for _ in range(_DRAWS):
        moved = {
            name: values * (1 + rng.choice([-_ULPS, _ULPS], size=values.shape) * np.finfo(np.float64).eps)
            for name, values in inputs.items()
        }
        results = stable.evaluate(moved, sizes)
        worst = max(worst, *(_relative(truth[n], results[n]) for n in truth if np.isfinite(truth[n]).all()), 0.0)
    return _ROOM * worst


def small_sizes(source: Cascade, derived: Cascade, rank: str) -> dict[str, int]:
    """Return sizes small enough to run at once, with several tiles of several elements."""
    tiles = {symbol for symbol in derived.symbols if symbol not in source.symbols}
    sizes = {symbol: _TILE for symbol in tiles if symbol.endswith("0")}
    sizes[rank.upper()] = _TILE * _TILES
    groups = _extents(source)
    others = itertools.cycle(_PLAIN_SIZES)
    for symbol in source.symbols:
        group = groups.get(symbol.lower(), {symbol.lower()})
        known = [sizes[each.upper()] for each in group if each.upper() in sizes]
        sizes.setdefault(symbol, known[0] if known else next(others))
    return {symbol: number for symbol, number in sizes.items() if symbol not in _defaults(source)}


def _defaults(source: Cascade) -> set[str]:
    return {each.name for each in source.parameters}


def same_extent(source: Cascade, rank: str) -> set[str]:
    """Return ranks that index a tensor over ``rank``, or are compared with it: they get its size."""
    return _extents(source).get(rank, {rank})


def _extents(source: Cascade) -> dict[str, set[str]]:
    """Return for each rank all that have its extent: they index the same rank of a tensor, or are compared."""
    groups: dict[str, set[str]] = {}

    def join(ranks: Iterable[str]) -> None:
        joined = set(ranks)
        for rank in list(joined):
            joined |= groups.get(rank, set())
        groups.update(dict.fromkeys(joined, joined))

    for einsum in source.einsums:
        for read in einsum.reads:
            for index, own in zip(read.indices, source.tensors[read.tensor].ranks, strict=True):
                if index.rank is not None:
                    join({index.rank, own})
        for condition in einsum.conditions:
            join(condition.ranks)
    return groups


def _domain(source: Cascade, stable: Cascade, sizes: Mapping[str, int]) -> frozenset[str]:
    """Return the fewest inputs that have to be positive for the results to be finite."""
    names = [tensor.name for tensor in source.inputs]
    for number in range(len(names) + 1):
        for chosen in itertools.combinations(names, number):
            inputs = _normal(source, sizes, frozenset(chosen), np.random.default_rng(1))
            if _finite(stable.evaluate(inputs, dict(sizes))):
                return frozenset(chosen)
    raise InputError(
        f"cascade {source.name} must give finite results on some random input, so that a derived form can be checked",
        hint="look for a division by zero, or the logarithm of a negative number",
    )


def _normal(source: Cascade, sizes: Mapping[str, int], positive: frozenset[str], rng: np.random.Generator) -> Arrays:
    arrays = {}
    for tensor in source.inputs:
        values = rng.normal(size=tensor.shape(sizes))
        arrays[tensor.name] = np.abs(values) + 0.5 if tensor.name in positive else np.asarray(values)
    return arrays


def _inputs(
    source: Cascade, rank: str, sizes: Mapping[str, int], positive: frozenset[str]
) -> Iterator[tuple[str, Arrays]]:
    """Yield inputs: random ones, then each input over the rank in turn with values that hurt."""
    rng = np.random.default_rng(2406)
    for number in range(4):
        yield f"random {number}", _normal(source, sizes, positive, rng)
    extent = sizes[rank.upper()]
    where = np.arange(extent)
    patterns = {
        "all equal": np.full(extent, 3.0),
        "all equal and huge": np.full(extent, _HUGE),
        "all equal and hugely negative": np.full(extent, -_HUGE),
        "huge, signs alternating": np.where(where % 2, _HUGE, -_HUGE),
        "huge, rising": np.linspace(-_HUGE, _HUGE, extent),
        "huge, falling": np.linspace(_HUGE, -_HUGE, extent),
        "one hot, last": np.where(where == extent - 1, _HUGE, 0.0),
        "one hot, first": np.where(where == 0, _HUGE, 0.0),
    }
    for tensor in source.inputs:
        if rank not in tensor.ranks or tensor.name in positive:
            continue
        shape = [extent if each == rank else 1 for each in tensor.ranks]
        for label, pattern in patterns.items():
            inputs = _normal(source, sizes, positive, rng)
            values = np.broadcast_to(pattern.reshape(shape), inputs[tensor.name].shape)
            inputs[tensor.name] = np.array(values, dtype=np.float64)
            yield f"{tensor.name} {label}", inputs


def _finite(results: Mapping[str, np.ndarray[Any, Any]]) -> bool:
    return all(bool(np.isfinite(each).all()) for each in results.values())


def _truth(source: Cascade, stable: Cascade, inputs: Arrays, sizes: Mapping[str, int]) -> tuple[Arrays, bool]:
    results = source.evaluate(inputs, sizes)
    if _finite(results):
        return results, True
    return stable.evaluate(inputs, sizes), stable == source


def _single_room(stable: Cascade, inputs: Arrays, sizes: Mapping[str, int], truth: Arrays) -> float:
    """Return the relative error allowed in float32: what the source itself loses there, with some room."""
    own = stable.evaluate(inputs, sizes, "float32")
    errors = [_relative(truth[name], own[name]) for name in truth if np.isfinite(truth[name]).all()]
    lost = max((each for each in errors if np.isfinite(each)), default=0.0)
    if any(not np.isfinite(each) for each in errors):
        return np.inf
    return max(_TOLERANCE_SINGLE, _ROOM * lost)


def _relative(truth: np.ndarray[Any, Any], result: np.ndarray[Any, Any]) -> float:
    if truth.size == 0:
        return 0.0
    scale = float(np.abs(truth).max())
    difference = float(np.abs(result.astype(np.float64) - truth).max())
    # Below the rounding of the terms that cancel to it, a result has no relative accuracy to lose.
    return difference / max(scale, 1e-12) if np.isfinite(difference) else np.inf


def _compare(truth: Arrays, result: Arrays, tolerance: float, label: str, derived: Cascade) -> float:
    worst = 0.0
    for name, expected in truth.items():
        if not np.isfinite(expected).all():
            continue
        error = _relative(expected, result[name])
        if not error <= tolerance:
            raise SelfCheckError(
                f"derived cascade {derived.name} must compute {name} as its source does, within {tolerance:.1e}, but "
                f"is {error:.1e} off (inputs: {label}); a bug of the derivation: please report the source"
            )
        worst = max(worst, error) if np.isfinite(error) else worst
    return worst


def operations(cascade: Cascade, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the number of operations of a cascade by operator, sorted by name."""
    total: dict[str, int] = {}
    for counts in cascade.operation_counts(sizes).values():
        for operator, number in counts.items():
            total[operator] = total.get(operator, 0) + number
    return dict(sorted(total.items()))
