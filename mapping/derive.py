"""Derives from the plain definition of a cascade the form that visits its elements once, or says what forbids it.

The rules are distributivity (deferral), the shift of exponents where it cancels, and running statistics with the
correction that algebra gives; docs/derivation.md states them with their conditions. FuseMax (arXiv 2406.10491v3,
section III) applies the first and the last by hand; Neptune (arXiv 2510.08726) and RedFuser (arXiv 2603.10026)
automate them for kernels of GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from accel.cascade import Cascade, Einsum
from accel.errors import InputError, did_you_mean
from accel.expression import Index
from mapping.derivation.check import Check, SelfCheckError, check, operations, same_extent
from mapping.derivation.moments import Blocked
from mapping.derivation.plan import make_plan
from mapping.derivation.rewrite import FORMS, rewrite
from mapping.derivation.stabilise import dependent_on, stabilise
from mapping.derivation.steps import Step
from mapping.derivation.tiles import put
from mapping.passes import default_rank, passes

__all__ = ["FORMS", "Blocked", "Check", "Derivation", "SelfCheckError", "Step", "derive"]


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """The outcome of a derivation.

    Parameters
    ----------
    source : Cascade
        The cascade as given.
    rank : str
        The rank over which passes are counted.
    form : str
        One of ``FORMS``.
    cascade : Cascade, optional
        The form with the fewest passes that the rules reach; None where they reach no better one than the source.
    derived : bool
        That form needs one pass.
    passes_before : int, optional
        Passes of the source; None where they have no bound.
    passes_after : int, optional
        Passes of ``cascade``, or of the source where there is none.
    steps : tuple of Step
        How it was derived.
    blocked : tuple of Blocked
        What forbids fewer passes, first cause first.
    check : Check, optional
        The comparison of ``cascade`` with ``source``; None where they are one.
    """

    __pydantic_config__ = {"extra": "forbid"}

    source: Cascade
    rank: str
    form: str
    cascade: Cascade | None
    derived: bool
    passes_before: int | None
    passes_after: int | None
    steps: tuple[Step, ...]
    blocked: tuple[Blocked, ...]
    check: Check | None

    @property
    def same_extent(self) -> tuple[str, ...]:
        """Size symbols that equal that of ``rank``: its own, and those of ranks compared with it or indexed like it."""
        return tuple(sorted(rank.upper() for rank in same_extent(self.source, self.rank)))

    def extra_operations(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return by operator how many more operations (fewer: negative) the derived form does.

        Parameters
        ----------
        sizes : mapping of str to int
            Sizes of the ranks of the source, parameters, and the tile size of the derived form.

        Raises
        ------
        InputError
            A size is missing or wrong.
        """
        if self.cascade is None:
            return {}
        before, after = operations(self.source, sizes), operations(self.cascade, sizes)
        extra = {name: after.get(name, 0) - before.get(name, 0) for name in sorted({*before, *after})}
        return {name: number for name, number in extra.items() if number}

    def as_dict(self, sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return plain data for JSON; with ``sizes`` the extra operations are numbers, else absent."""
        first = self.blocked[0] if self.blocked and not self.derived else None
        return {
            "name": self.source.name,
            "rank": self.rank,
            "form": self.form,
            "derived": self.derived,
            "passes_before": self.passes_before,
            "passes_after": self.passes_after,
            "max_relative_error": self.check.max_relative_error if self.check else 0.0 if self.derived else None,
            "max_relative_error_single": self.check.max_relative_error_single if self.check else None,
            "extra_operations": self.extra_operations(sizes) if sizes else {},
            "sizes": dict(sizes or {}),
            "blocking_einsum": first.einsum if first else None,
            "reason": first.reason if first else None,
            "cascade": str(self.cascade) if self.cascade is not None else None,
            "steps": [
                {
                    "rule": step.rule,
                    "einsum": step.einsum,
                    "before": list(step.before),
                    "after": list(step.after),
                    "condition": step.condition,
                }
                for step in self.steps
            ],
        }


def derive(cascade: Cascade, rank: str | None = None, *, form: str = "running") -> Derivation:
    """Derive the form of ``cascade`` with the fewest passes over ``rank`` that the rules reach, and check it.

    Parameters
    ----------
    cascade : Cascade
        The plain definition: ``rank`` is not partitioned in it.
    rank : str, optional
        The rank; without it the one with the most passes (``mapping.passes.default_rank``).
    form : str
        ``running``: values that run from tile to tile (FlashAttention-2, FuseMax); ``split``: tiles with statistics of
        their own, merged at the end (FlashDecoding, split-K).

    Raises
    ------
    InputError
        The cascade has no such rank, ``form`` is unknown, or no input was found on which it is finite.
    SelfCheckError
        The derived form does not compute what the source does: a bug.
    """
    if form not in FORMS:
        raise InputError(f"form must be one of {', '.join(FORMS)}, not {form!r}", hint=did_you_mean(form, FORMS))
    chosen = rank if rank is not None else _default(cascade)
    if chosen not in cascade.ranks:
        raise InputError(
            f"cascade {cascade.name} has no rank {chosen!r}", hint=did_you_mean(chosen, cascade.ranks), field=("rank",)
        )
    before = _passes(cascade, chosen)
    partitioned = _runs_along(cascade, chosen)
    if partitioned is not None:
        return _unchanged(cascade, chosen, form, before, partitioned)
    plain = _one_name(cascade, chosen)
    stable, shifts = stabilise(plain, chosen)
    if before == 1 and not shifts and form == "running":
        return _unchanged(cascade, chosen, form, before, None)
    plan = make_plan(stable, chosen)
    if plan.stuck:
        return replace(_unchanged(cascade, chosen, form, before, None), blocked=tuple(plan.blocked), derived=False)
    written = rewrite(plan, form)
    derived = _in_order(written, chosen)
    after = _passes(derived, chosen)
    derived = replace(derived, name=f"{cascade.name}-{'split' if form == 'split' else f'{after}pass'}")
    materialised = [
        Blocked(
            einsum=name,
            reason=f"{cascade.einsum(name).output} is an output with one value for each element of {chosen}, and each "
            f"needs {_statistics(stable, name, chosen)}, which is known once all elements were visited",
        )
        for name in cascade.outputs
        if name in plan.values and plan.values[name].element and plan.statistics(plan.values[name].algebra)
    ]
    compared = check(cascade, stable, derived, chosen)
    return Derivation(
        source=cascade,
        rank=chosen,
        form=form,
        cascade=derived,
        derived=after == 1,
        passes_before=before,
        passes_after=after,
        steps=(*shifts, *plan.steps),
        blocked=(*plan.blocked, *materialised, *_boundaries(derived, chosen)),
        check=compared,
    )


def _default(cascade: Cascade) -> str:
    """Return the rank with the most passes; where some have no bound, the first of these."""
    names = dict.fromkeys(rank for tensor in cascade.inputs for rank in tensor.ranks)
    for rank in names:
        if _passes(cascade, rank) is None:
            return rank
    return default_rank(cascade)


def _passes(cascade: Cascade, rank: str) -> int | None:
    """Return the number of passes; None where it has no bound."""
    try:
        return passes(cascade, rank).passes
    except InputError:
        return None


def _unchanged(cascade: Cascade, rank: str, form: str, before: int | None, blocked: Blocked | None) -> Derivation:
    """Return a derivation without a step."""
    one = before == 1
    return Derivation(
        source=cascade,
        rank=rank,
        form=form,
        cascade=cascade if one else None,
        derived=one,
        passes_before=before,
        passes_after=before,
        steps=(),
        blocked=(blocked,) if blocked is not None and not one else (),
        check=None,
    )


def _runs_along(cascade: Cascade, rank: str) -> Blocked | None:
    """Return the first Einsum that partitions ``rank`` already or builds its output along it."""
    for einsum in cascade.einsums:
        tiles = any(
            len(index.ranks) > 1 and own == rank
            for read in einsum.reads
            for index, own in zip(read.indices, cascade.tensors[read.tensor].ranks, strict=True)
        )
        if tiles or einsum.iterative_rank == rank:
            how = f"partitions {rank}" if tiles else f"builds {einsum.name} step by step along {rank}"
            return Blocked(
                einsum=einsum.name,
                reason=f"{einsum.output} {how} already; a derivation starts from the plain definition",
            )
    return None


def _one_name(cascade: Cascade, rank: str) -> Cascade:
    """Return ``cascade`` with ``rank`` where an Einsum counts the same coordinates by another name."""
    changed: list[Einsum] = []
    for einsum in cascade.einsums:
        others = {
            index.rank
            for read in einsum.reads
            for index, own in zip(read.indices, cascade.tensors[read.tensor].ranks, strict=True)
            if own == rank and index.rank not in (None, rank)
        }
        names = [each for each in others if each is not None]
        inner = einsum.reduction.ranks if einsum.reduction is not None else ()
        if len(names) != 1 or rank in einsum.ranks or names[0] not in inner:
            changed.append(einsum)
            continue
        changed.append(_with_rank(einsum, names[0], rank))
    return replace(cascade, einsums=tuple(changed))


def _with_rank(einsum: Einsum, old: str, new: str) -> Einsum:
    def index(each: Index) -> Index:
        return Index(terms=tuple(replace(term, rank=new if term.rank == old else term.rank) for term in each.terms))

    swaps = {read: replace(read, indices=tuple(map(index, read.indices))) for read in einsum.reads}
    reduction = einsum.reduction
    if reduction is not None:
        reduction = replace(reduction, ranks=tuple(new if rank == old else rank for rank in reduction.ranks))
    return replace(
        einsum,
        output=replace(einsum.output, indices=tuple(map(index, einsum.output.indices))),
        expression=put(swaps, einsum.expression),
        reduction=reduction,
        conditions=tuple(replace(c, left=index(c.left), right=index(c.right)) for c in einsum.conditions),
    )


def _in_order(cascade: Cascade, rank: str) -> Cascade:
    """Return ``cascade`` with its Einsums in the order of their passes; what needs a whole sweep comes behind it."""
    places = {each.name: (each.pass_number, each.waits) for each in passes(cascade, rank).einsums}
    initial = [each for each in cascade.einsums if each.is_initial]
    steps = sorted((each for each in cascade.einsums if not each.is_initial), key=lambda each: places[each.name])
    return replace(cascade, einsums=(*initial, *steps))


def _boundaries(cascade: Cascade, rank: str) -> list[Blocked]:
    """Return what opens each further pass of a derived form, as the analysis of passes tells it."""
    found = passes(cascade, rank).boundaries
    return [Blocked(einsum=each.einsum, reason="; ".join(each.reasons)) for each in found]


def _statistics(cascade: Cascade, name: str, rank: str) -> str:
    late = dependent_on(cascade, rank)
    einsum = cascade.einsum(name)
    found = [str(read) for read in einsum.reads if read.tensor in late and rank not in read.ranks]
    return " and ".join(found) or " and ".join(str(read) for read in einsum.reads if read.tensor in late)
