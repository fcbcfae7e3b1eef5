"""Finds which reductions over a rank can be kept in one sweep, what each result is made of, and what stops the rest.

Every value of the cascade is written as algebra over the elements of a row and its statistics. Reductions of it go to
``mapping.derivation.reduction``; this module reads the cascade and looks through what stands between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

import sympy as sp

from accel.cascade import Cascade, Einsum
from accel.expression import Access, Condition
from mapping.derivation.algebra import is_zero, renamed
from mapping.derivation.moments import Blocked, Plan, Value
from mapping.derivation.reduction import RowReduction, UnfitError, sum_of_positive
from mapping.derivation.stabilise import dependent_on
from mapping.derivation.steps import Step

__all__ = ["make_plan"]

_MASKED = sp.Symbol("masked", real=True)
"""Stands for an element that a filter leaves out."""


def make_plan(cascade: Cascade, rank: str) -> Plan:
    """Return what can be derived for ``cascade`` over ``rank``; never fails, but blocks."""
    plan = Plan(cascade=cascade, rank=rank)
    plan.names.update((*cascade.tensors, *cascade.symbols))
    maker = _Maker(plan=plan, late=dependent_on(cascade, rank))
    try:
        for einsum in cascade.einsums:
            maker.take(einsum)
    except _StuckError:
        plan.stuck = True
    return plan


class _StuckError(Exception):
    """No plan exists: a reduction over the rank stands where no rule applies at all."""


def _is_sum(algebra: sp.Expr) -> bool:
    """Whether a value of the row is a sum of symbols, logarithms of symbols and constants, which can cancel."""
    terms = [term.as_coeff_Mul()[1] for term in sp.Add.make_args(algebra)]
    return algebra.is_Add and all(
        term.is_Symbol or term.is_number or (isinstance(term, sp.log) and term.args[0].is_Symbol) for term in terms
    )


@dataclass(kw_only=True)
class _Maker:
    plan: Plan
    late: frozenset[str]

    # Reading the cascade.

    def take(self, einsum: Einsum) -> None:
        """Add one Einsum to the plan."""
        plan = self.plan
        if einsum.name not in self.late:
            self._row_term(einsum)
            return
        element = plan.rank in einsum.output.ranks
        reduces = einsum.reduction is not None and plan.rank in einsum.reduction.ranks
        loop = next((stage for stage in plan.cascade.stages if einsum in stage.einsums and stage.rank), None)
        if loop is not None or einsum.iterative_rank is not None or einsum.is_initial:
            self._loop(einsum)
        try:
            algebra = plan.algebra.to_sympy(einsum.expression, self.value_of)
            conditions = self._conditions(einsum)
        except UnfitError as unfit:
            self._block(einsum, str(unfit))
            return
        if algebra.has(sp.zoo, sp.nan):
            self._block(einsum, f"{einsum.output} divides by what is always 0")
        if element:
            self._note_cancelled(einsum, algebra)
        if reduces:
            self._reduction(einsum, algebra, conditions)
            return
        if element and einsum.reduction is not None:
            self._block(
                einsum,
                f"{einsum.output} reduces over {','.join(einsum.reduction.ranks)} between reductions over {plan.rank}",
            )
            return
        if einsum.reduction is not None:  # a reduction of row values over other ranks: one symbol
            self._store(einsum, plan.algebra.symbol(einsum.output), inline=False, element=False, conditions=())
            plan.values[einsum.name].level = max(map(plan.level, algebra.free_symbols), default=1)
            return
        inline = element or _is_sum(algebra)
        self._store(einsum, algebra, inline=inline, element=element, conditions=conditions)

    def _store(
        self, einsum: Einsum, algebra: sp.Expr, *, inline: bool, element: bool, conditions: tuple[Condition, ...]
    ) -> None:
        plan = self.plan
        known = [plan.level(symbol) for symbol in plan.statistics(algebra)]
        plan.values[einsum.name] = Value(
            einsum=einsum,
            algebra=algebra,
            element=element,
            level=max(known, default=0 if element else 1),
            conditions=conditions,
            inline=inline,
        )

    def _row_term(self, einsum: Einsum) -> None:
        """Look through an elementwise sum with a term of the row alone, so that the term can move or cancel."""
        plan = self.plan
        if plan.rank not in einsum.output.ranks or einsum.reduction is not None or einsum.iterative_rank is not None:
            return
        if einsum.is_initial or any(index.rank is None for index in einsum.output.indices):
            return
        algebra = plan.algebra.to_sympy(einsum.expression, self.value_of)
        apart = [term for term in sp.Add.make_args(algebra) if not plan.over_rank(term) and term.free_symbols]
        if not apart or not algebra.is_Add:
            return
        rest = sp.Add(*(term for term in algebra.args if term not in apart))
        if not isinstance(rest, sp.Symbol):
            name = plan.fresh(f"{einsum.name}K")
            leaf = replace(
                einsum,
                output=replace(einsum.output, tensor=name),
                expression=plan.algebra.to_expression(rest),
                comment="",
            )
            plan.leaves[name] = leaf
            rest = plan.algebra.symbol(leaf.output)
        self._store(einsum, rest + sp.Add(*apart), inline=True, element=True, conditions=einsum.conditions)

    def value_of(self, access: Access) -> sp.Expr:
        """Return what stands for ``access`` in the algebra."""
        plan = self.plan
        value = plan.values.get(access.tensor)
        if value is None:
            positive = access.tensor in plan.moments and sum_of_positive(plan.moments[access.tensor])
            return plan.algebra.symbol(access, positive=positive)
        names = {}
        for own, index in zip(value.einsum.output.indices, access.indices, strict=True):
            if own.rank is None or index.rank is None:
                raise UnfitError(f"{value.einsum.name} is read at {access}, not element by element")
            names[own.rank] = index.rank
        if not value.element and plan.rank in names.values():
            raise UnfitError(f"the row value {value.einsum.output} is read at {access}, along {plan.rank}")
        if not value.inline:
            return plan.algebra.symbol(access, positive=bool(value.algebra.is_positive))
        return self._renamed(value.algebra, names)

    def _note_cancelled(self, einsum: Einsum, algebra: sp.Expr) -> None:
        """Record terms of the row that vanish once a statistic is written out."""
        plan = self.plan
        inlined = {
            read.tensor for read in einsum.reads if read.tensor in plan.values and plan.values[read.tensor].inline
        }
        rows = [read for read in einsum.reads if read.tensor in inlined and not plan.values[read.tensor].element]
        if not rows:
            return
        closed = plan.algebra.to_sympy(
            einsum.expression, lambda read: plan.algebra.symbol(read) if read in rows else self.value_of(read)
        )
        gone = closed.free_symbols - algebra.free_symbols - {plan.algebra.symbol(read) for read in rows}
        if not gone:
            return
        names = ", ".join(sorted(map(plan.text, gone)))
        spelled = ", ".join(f"{read} = {plan.text(self.value_of(read))}" for read in rows)
        plan.steps.append(
            Step(
                rule="cancel",
                einsum=einsum.name,
                before=(f"{einsum.output} = {plan.text(closed)}",),
                after=(f"{einsum.output} = {plan.text(algebra)}",),
                condition=f"{spelled}, so {names} cancels",
            )
        )

    def _renamed(self, expression: sp.Expr, names: dict[str, str]) -> sp.Expr:
        if all(old == new for old, new in names.items()):
            return expression
        swaps = {}
        for symbol in expression.free_symbols:
            access = self.plan.algebra.access(symbol)
            if access is not None:
                positive = bool(symbol.is_positive)
                swaps[symbol] = self.plan.algebra.symbol(renamed(access, names), positive=positive)
        return expression.xreplace(swaps)

    def _conditions(self, einsum: Einsum) -> tuple[Condition, ...]:
        """Return the filter under which the inlined right-hand side may be used: its own and that of what it reads.

        Outside of its filter an element is 0. That may be forgotten if the reader skips those points as well, and
        becomes the reader's own filter if the reader is 0 there too, or adds 0.
        """
        plan = self.plan
        found = dict.fromkeys(einsum.conditions)
        for read in einsum.reads:
            value = plan.values.get(read.tensor)
            if value is None or not value.element or not value.conditions or set(value.conditions) <= set(found):
                continue
            alone = plan.algebra.to_sympy(einsum.expression, partial(self._masked, read))
            adds = einsum.reduction is None or einsum.reduction.operator == "add"
            if not adds or not is_zero(alone.subs(_MASKED, 0)):
                raise UnfitError(
                    f"{einsum.output} takes {read} as 0 outside of its filter "
                    f"({', '.join(map(str, value.conditions))}) and is not 0 there itself"
                )
            found.update(dict.fromkeys(value.conditions))
        return tuple(found)

    def _masked(self, masked: Access, access: Access) -> sp.Expr:
        return _MASKED if access == masked else self.value_of(access)

    # Reductions.

    def _reduction(self, einsum: Einsum, algebra: sp.Expr, conditions: tuple[Condition, ...]) -> None:
        plan = self.plan
        first = max([1, *(plan.level(each) for each in algebra.free_symbols if plan.over_rank(each))])
        last = max([first, *(plan.level(each) + 1 for each in plan.statistics(algebra))])
        for level in range(first, last + 1):
            work = RowReduction(
                plan=plan, einsum=einsum, conditions=conditions, level=level, positive=bool(algebra.is_positive)
            )
            try:
                result = work.result(algebra)
            except UnfitError as unfit:
                self._blame(einsum, level, str(unfit))
                continue
            work.commit()
            self._finish(einsum, result)
            return
        raise AssertionError(f"{einsum.output} reads nothing that varies in sweep {last}, and still does not fit it")

    def _finish(self, einsum: Einsum, result: sp.Expr) -> None:
        plan = self.plan
        if result == plan.algebra.symbol(einsum.output) and einsum.name in plan.moments:
            return
        # What lost a rank in simplification cannot be written over that rank any more, but can be read.
        lost = not set(einsum.output.ranks) <= plan.algebra.ranks(result)
        self._store(einsum, result, inline=lost or _is_sum(result), element=False, conditions=())

    def _loop(self, einsum: Einsum) -> NoReturn:
        """Give up on a recurrence whose steps need a reduction over the rank; name the Einsum that forbids it."""
        plan = self.plan
        names = {einsum.name}
        for stage in plan.cascade.stages:
            members = {each.name for each in stage.einsums}
            names |= members if stage.rank and einsum.name in members else set()
        loop = [each for each in plan.cascade.einsums if each.name in names]
        plan.loops.update(names)
        for member in loop:
            if plan.rank not in member.output.ranks:
                continue
            work = RowReduction(plan=plan, einsum=member, conditions=(), level=1, trial=True)
            try:
                work.result(plan.algebra.to_sympy(member.expression, self.value_of))
            except UnfitError as unfit:
                self._block(member, str(unfit))
        rank = next((each.iterative_rank for each in loop if each.iterative_rank), "")
        self._block(loop[-1], f"each step of {rank} in {', '.join(sorted(names))} needs a reduction over {plan.rank}")

    def _block(self, einsum: Einsum, reason: str) -> NoReturn:
        """Give up on the whole cascade."""
        plan = self.plan
        plan.blocked.append(Blocked(einsum=einsum.name, reason=reason))
        raise _StuckError

    def _blame(self, einsum: Einsum, level: int, reason: str) -> None:
        """Record the first Einsum on the way to ``einsum`` that no rule can take apart."""
        plan = self.plan
        for name in self._elements_behind(einsum):
            value = plan.values[name]
            work = RowReduction(plan=plan, einsum=einsum, conditions=(), level=level, trial=True)
            try:
                work.result(value.algebra)
            except UnfitError as unfit:
                plan.blocked.append(Blocked(einsum=name, reason=str(unfit)))
                return
        plan.blocked.append(Blocked(einsum=einsum.name, reason=reason))

    def _elements_behind(self, einsum: Einsum) -> list[str]:
        """Return the element values that ``einsum`` is made of, in the order of the cascade."""
        found, waiting = set(), [einsum]
        while waiting:
            for read in waiting.pop().reads:
                value = self.plan.values.get(read.tensor)
                if value is not None and value.element and read.tensor not in found:
                    found.add(read.tensor)
                    waiting.append(value.einsum)
        return [each.name for each in self.plan.cascade.einsums if each.name in found]
