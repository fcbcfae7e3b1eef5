"""One reduction over a rank, tried in one sweep: separated into moments, each with the correction that repairs it.

Distributivity splits a sum into moments and factors outside (``mapping.derivation.algebra.parts``). A moment that
depends on a statistic of the same sweep is kept for the running statistic, if algebra finds what its old value becomes
when the statistic changes: by a common factor, or because element and statistic are seen only through their difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import sympy as sp

from accel.cascade import Einsum
from accel.expression import COMPARISON_OPERATORS, Access, Condition, Index, Operation, SizeValue, size_symbol
from mapping.derivation.algebra import Part, common_scale, parts
from mapping.derivation.moments import Correction, Moment, Plan
from mapping.derivation.steps import Step

__all__ = ["RowReduction", "UnfitError", "sum_of_positive"]

_STEPS = frozenset({"round", "floor", "select", *COMPARISON_OPERATORS})
"""Functions that are constant between jumps."""


class UnfitError(Exception):
    """A reduction does not fit a sweep."""


def sum_of_positive(moment: Moment) -> bool:
    """Whether algebra knows that the moment is positive: a sum of exponentials, for one."""
    return moment.operator == "add" and bool(moment.body.is_positive)


@dataclass(kw_only=True)
class RowReduction:
    """One reduction tried in one sweep; moments are added to the plan only by ``commit``."""

    plan: Plan
    einsum: Einsum
    conditions: tuple[Condition, ...]
    level: int
    positive: bool = False
    trial: bool = False
    whole: sp.Expr = field(default=sp.Integer(0))
    made: dict[str, Moment] = field(default_factory=dict)
    notes: list[Step] = field(default_factory=list)

    @property
    def operator(self) -> str:
        """The reduction; a trial judges whether elements can be summed."""
        return "add" if self.trial or self.einsum.reduction is None else self.einsum.reduction.operator

    def moves(self, factor: sp.Expr) -> bool:
        """Whether ``factor`` is a value of the row, which may stand outside of the reduction."""
        ranks = self.plan.algebra.ranks(factor)
        if self.trial:
            return self.plan.rank not in ranks
        return self.plan.rank not in ranks and ranks <= set(self.einsum.output.ranks)

    def result(self, algebra: sp.Expr) -> sp.Expr:
        """Return the value of the reduction over moments and statistics.

        Raises
        ------
        UnfitError
            It cannot be had in this sweep; the text is the reason.
        """
        self.whole = algebra
        if self.operator != "add":
            result = self.extremum(algebra, self.operator)
            self._note_extremum(algebra, result)
            return result
        seen = self.differences(algebra)
        found = parts(seen, self.moves)
        terms = [
            part.outside * self.moment("add", part.inside, alone=len(found) == 1 and part.outside == 1)
            for part in found
        ]
        result = sp.factor_terms(sp.Add(*terms))
        if not (len(found) == 1 and found[0].outside == 1):
            self._note_deferral(algebra, found, result)
        return result

    def _note_deferral(self, algebra: sp.Expr, found: list[Part], result: sp.Expr) -> None:
        plan = self.plan
        kept = [self._equation(moment) for moment in self.made.values() if moment.operator == "add"]
        outside = " and ".join(dict.fromkeys(plan.text(part.outside) for part in found if part.outside.free_symbols))
        if not outside:
            return
        self.notes.append(
            Step(
                rule="deferral",
                einsum=self.einsum.name,
                before=(f"{self.einsum.output} = {plan.text(algebra)}",),
                after=(*kept, f"{self.einsum.output} = {plan.text(result)}"),
                condition=f"no rank {plan.rank} in {outside}, and products distribute over the sum over {plan.rank}",
            )
        )

    def _note_extremum(self, algebra: sp.Expr, result: sp.Expr) -> None:
        plan = self.plan
        if self.trial or self.einsum.name in self.made:
            return
        self.notes.append(
            Step(
                rule="extremum",
                einsum=self.einsum.name,
                before=(f"{self.einsum.output} = {plan.text(algebra)} :: {self.einsum.reduction}",),
                after=(*map(self._equation, self.made.values()), f"{self.einsum.output} = {plan.text(result)}"),
                condition="what moves out is a term, a factor of known sign or a monotone function, the same for all "
                f"elements of {plan.rank}",
            )
        )

    def _equation(self, moment: Moment) -> str:
        left = f"{moment.name}[{','.join(self._final_ranks(moment))}]" if self._final_ranks(moment) else moment.name
        ending = "" if moment.operator == "add" else f" :: {moment.operator}[{','.join(moment.inner)}]"
        where = f" where {', '.join(map(str, moment.conditions))}" if moment.conditions else ""
        return f"{left} = {self.plan.text(moment.body)}{ending}{where}"

    # Differences: an element and a statistic that are only seen through their difference.

    def differences(self, algebra: sp.Expr) -> sp.Expr:
        """Replace differences of element and statistic by one symbol each, where this makes the statistic vanish."""
        outside = sp.Mul(*(factor for factor in sp.Mul.make_args(algebra) if self.moves(factor)))
        algebra = algebra / outside
        for node in self._candidates(algebra):
            if algebra.has(node):
                algebra = self._replaced(algebra, node)
        return outside * algebra

    def _replaced(self, algebra: sp.Expr, node: sp.Expr) -> sp.Expr:
        """Replace one difference, everywhere; return ``algebra`` itself where its statistic would stay."""
        apart = [term for term in node.args if self.moves(term)]
        shift = sp.Add(*apart)
        varying = set(self.plan.statistics(shift, self.level))
        rest = sp.Add(*(term for term in node.args if term not in apart))
        known = set(self.plan.differences)
        symbol = self._difference(rest, shift)
        changed = algebra.xreplace({node: symbol})
        leaf = next((term for term in sp.Add.make_args(rest) if isinstance(term, sp.Symbol)), None)
        if leaf is not None and changed.free_symbols & varying:
            changed = changed.xreplace({leaf: symbol - shift - (rest - leaf)})
        if not changed.free_symbols & varying:
            return changed
        if symbol not in known:
            del self.plan.differences[symbol]
        return algebra

    def _candidates(self, algebra: sp.Expr) -> list[sp.Expr]:
        """Return sums of element and varying statistic, those in exponents first."""
        exponents: list[sp.Expr] = []
        others: list[sp.Expr] = []
        for node in sp.preorder_traversal(algebra):
            power = _is_power(node)
            for each in (node.as_base_exp()[1],) if power else (node,):
                if not each.is_Add or each in exponents:
                    continue
                apart = [term for term in each.args if self.moves(term)]
                rest = sp.Add(*(term for term in each.args if term not in apart))
                if rest == 0 or self.plan.statistics(rest, self.level):
                    continue
                if self.plan.statistics(sp.Add(*apart), self.level):
                    (exponents if power else others).append(each)
        return list(dict.fromkeys([*exponents, *others]))

    def _difference(self, rest: sp.Expr, shift: sp.Expr) -> sp.Symbol:
        plan = self.plan
        for symbol, pair in plan.differences.items():
            if pair == (rest, shift):
                return symbol
        ranks = sorted(plan.algebra.ranks(rest + shift))
        access = Access(tensor=f"difference{len(plan.algebra.meaning)}", indices=tuple(map(Index.of, ranks)))
        symbol = plan.algebra.symbol(access)
        plan.differences[symbol] = (rest, shift)
        return symbol

    # Moments.

    def moment(self, operator: str, body: sp.Expr, *, alone: bool = False) -> sp.Expr:
        """Return the symbol of the reduction of ``body``; it is kept as a moment."""
        plan = self.plan
        if not plan.over_rank(body) and not self.conditions:
            return self._repeated(operator, body)
        reduction = self.einsum.reduction
        inner = reduction.ranks if reduction is not None and not self.trial else (plan.rank,)
        ranks, inner, factor = self._shape(body, inner)
        known = self._known(operator, body, ranks, inner)
        if known is not None:
            return factor * self._symbol(known)
        name = self.einsum.name if alone and ranks_match(ranks, self.einsum, plan.rank) and factor == 1 else ""
        if not self.trial and not (name and name not in plan.moments and name not in self.made):
            name = plan.fresh(f"{self.einsum.name}P")
        moment = Moment(
            name=name or f"trial{len(self.made)}",
            operator=operator,
            body=body,
            ranks=ranks,
            inner=inner,
            conditions=self.conditions,
            level=self.level,
        )
        self.made[moment.name] = moment
        self._close(moment)
        return factor * self._symbol(moment)

    def _repeated(self, operator: str, body: sp.Expr) -> sp.Expr:
        """Return the reduction of what is equal for all elements."""
        reduction = self.einsum.reduction
        ranks = reduction.ranks if reduction is not None and not self.trial else (self.plan.rank,)
        if not self.plan.algebra.ranks(body).isdisjoint(ranks):
            raise UnfitError(f"{self.plan.text(body)} changes along {','.join(ranks)} but not along {self.plan.rank}")
        if operator != "add":
            return body
        sizes = [self.plan.algebra.symbol(SizeValue(symbol=size_symbol(rank))) for rank in ranks]
        return sp.Mul(body, *sizes)

    def _shape(self, body: sp.Expr, inner: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...], sp.Expr]:
        """Return the ranks of the moment in the order of its operands, the ranks reduced, and sizes to multiply by."""
        plan = self.plan
        seen: dict[str, None] = {}
        for symbol in sorted(self.plan.plain(body).free_symbols, key=lambda each: plan.algebra.order(each)):
            access = plan.algebra.access(symbol)
            seen.update(dict.fromkeys(access.ranks if access is not None else ()))
        seen.update(dict.fromkeys(rank for each in self.conditions for rank in each.ranks))
        if self.operator == "top":  # the place in the order is a rank of the result alone
            seen.update(dict.fromkeys(self.einsum.output.ranks))
        seen.setdefault(plan.rank)
        order = [rank for rank in self.einsum.ranks if rank in seen] if not self.trial else list(seen)
        first = [rank for rank in seen if rank in order]
        reduced = tuple(rank for rank in inner if rank in seen)
        factor = sp.Integer(1)
        if self.operator == "add":
            factor = sp.Mul(*(plan.algebra.symbol(SizeValue(symbol=size_symbol(r))) for r in inner if r not in seen))
        ranks = tuple(rank for rank in first if rank == plan.rank or rank not in reduced)
        return ranks, reduced, factor

    def _known(self, operator: str, body: sp.Expr, ranks: tuple[str, ...], inner: tuple[str, ...]) -> Moment | None:
        plain = self.plan.plain(body)
        for each in (*self.plan.moments.values(), *self.made.values()):
            key = (each.operator, each.conditions, each.level, each.inner)
            same = key == (operator, self.conditions, self.level, inner)
            if same and set(each.ranks) == set(ranks) and self.plan.plain(each.body) == plain:
                return each
        return None

    def _symbol(self, moment: Moment) -> sp.Symbol:
        indices = tuple(Index.of(rank) for rank in self._final_ranks(moment))
        positive = sum_of_positive(moment)
        return self.plan.algebra.symbol(Access(tensor=moment.name, indices=indices), positive=positive)

    def _final_ranks(self, moment: Moment) -> tuple[str, ...]:
        if moment.name == self.einsum.name:
            return self.einsum.output.ranks
        return tuple(rank for rank in moment.ranks if rank != self.plan.rank)

    def commit(self) -> None:
        """Keep the moments and the steps."""
        self.plan.moments.update(self.made)
        first = [note for note in self.notes if note.rule != "iteration"]
        self.plan.steps.extend((*first, *(note for note in self.notes if note.rule == "iteration")))

    # Corrections.

    def _close(self, moment: Moment) -> None:
        """Find what the old value of ``moment`` becomes when a statistic of this sweep changes."""
        plan, body = self.plan, moment.body
        varying = plan.statistics(plan.plain(body), self.level)
        if not varying:
            return
        moment.varying = tuple(varying)
        direct = plan.statistics(body, self.level)
        found = None if direct else self._by_difference(moment)
        moment.corrections = found or self._by_scale(moment)
        self._note_correction(moment)

    def _by_scale(self, moment: Moment) -> tuple[Correction, ...]:
        """f(x, g') = c(g, g') f(x, g): the part that depends on g is a factor."""
        plan = self.plan
        plain = plan.plain(moment.body)
        varying = set(moment.varying)
        scaled = common_scale(plain, lambda each: self.moves(each) and not each.free_symbols.isdisjoint(varying))
        if scaled is None:
            raise UnfitError(self._reason(moment.body, moment.varying))
        scale, _ = scaled
        now = scale.xreplace({old: plan.new(old) for old in moment.varying})
        return (Correction(factor=sp.powsimp(sp.simplify(now / scale)), moment=moment.name),)

    def _by_difference(self, moment: Moment) -> tuple[Correction, ...] | None:
        """f(x - g') = sum of c(g - g') f_j(x - g): expand f(u + d) and keep every f_j."""
        plan = self.plan
        seen = [symbol for symbol in moment.body.free_symbols if symbol in plan.differences]
        deltas = {symbol: sp.Symbol(f"delta {symbol.name}", real=True) for symbol in seen}
        spelled = {}
        for symbol, delta in deltas.items():
            shift = plan.differences[symbol][1]
            spelled[delta] = shift.xreplace({old: plan.new(old) for old in moment.varying}) - shift
        moved = {symbol: symbol + delta for symbol, delta in deltas.items()}
        expanded = sp.expand(moment.body.xreplace(moved), power_exp=True)
        terms: dict[sp.Expr, sp.Expr] = {}
        for term in sp.Add.make_args(expanded):
            fixed = [each for each in term.free_symbols if each not in spelled]
            factor, inside = term.as_independent(*fixed, as_Add=False)
            if inside.free_symbols & set(spelled):
                return None
            terms[inside] = terms.get(inside, sp.Integer(0)) + factor
        corrections = []
        for inside, factor in terms.items():
            coefficient = sp.factor_terms(factor.xreplace(spelled))
            if inside == moment.body:
                corrections.append(Correction(factor=coefficient, moment=moment.name))
                continue
            if not plan.over_rank(inside) and not moment.conditions:
                sizes = (plan.algebra.symbol(SizeValue(symbol=size_symbol(r))) for r in moment.inner if r != plan.rank)
                corrections.append(Correction(factor=sp.Mul(coefficient, inside, plan.seen, *sizes), moment=""))
                continue
            other = self.moment("add", inside)
            scale, bare = other.as_coeff_Mul() if not isinstance(other, sp.Symbol) else (sp.Integer(1), other)
            access = plan.algebra.access(bare)
            assert access is not None
            corrections.append(Correction(factor=coefficient * scale, moment=access.tensor))
        return tuple(corrections)

    def _reason(self, body: sp.Expr, varying: Iterable[sp.Symbol]) -> str:
        plan = self.plan
        names = " and ".join(plan.text(each) for each in varying)
        plain = plan.plain(body)
        kinds = [node for node in sp.preorder_traversal(plain) if isinstance(node, sp.Max | sp.Min | sp.Abs)]
        piecewise = [node for node in kinds if node.free_symbols & set(varying)]
        opaque = [
            node
            for node in sp.preorder_traversal(plain)
            if isinstance(node, sp.core.function.AppliedUndef) and node.free_symbols & set(varying)
        ]
        if opaque and opaque[0].func.__name__ in _STEPS:
            return (
                f"{plan.text(opaque[0])} is piecewise constant: the step of an element depends on the final "
                f"{names}, so what it added cannot be corrected"
            )
        if piecewise:
            return (
                f"{plan.text(piecewise[0])} is piecewise: which branch an element takes depends on the final {names}, "
                "so what it added cannot be corrected"
            )
        return (
            f"{plan.text(plain)} is no finite sum of (function of {names}) * (function of the element), "
            "so no bounded number of running values holds what a correction needs"
        )

    def _note_correction(self, moment: Moment) -> None:
        if self.trial:
            return
        plan = self.plan
        statistics = ", ".join(plan.text(each) for each in moment.varying)
        changed = plan.plain(moment.body).xreplace({old: plan.new(old) for old in moment.varying})
        change = "change" if len(moment.varying) > 1 else "changes"
        values, identity = [], []
        for each in moment.corrections:
            other = self.made.get(each.moment) or plan.moments.get(each.moment)
            values.append(self._scaled(each.factor, Access(tensor=each.moment) if other else None))
            if other is None:
                identity.append(plan.text(each.factor / plan.seen))
                continue
            body = plan.plain(other.body)
            identity.append(plan.text(body if each.factor == 1 else sp.Mul(each.factor, body, evaluate=False)))
        self.notes.append(
            Step(
                rule="iteration",
                einsum=self.einsum.name,
                before=(self._equation(moment),),
                after=(f"when {statistics} {change}, {moment.name} becomes {' + '.join(values)}",),
                condition=f"{plan.text(changed)} = {' + '.join(identity)}",
            )
        )

    def _scaled(self, factor: sp.Expr, value: Access | None) -> str:
        written = self.plan.algebra.to_expression(self.plan.plain(factor))
        if value is None:
            return str(written)
        return str(value if factor == 1 else Operation(operator="multiply", operands=(value, written)))

    # Extrema.

    def extremum(self, algebra: sp.Expr, operator: str) -> sp.Expr:
        """Return max or min of ``algebra``: terms and positive factors of the row move out, monotone functions too."""
        plan = self.plan
        if not plan.over_rank(algebra):
            return algebra
        inside = plan.statistics(algebra, self.level)
        rows = [s for s in algebra.free_symbols if not plan.over_rank(s) and self.moves(s) and plan.level(s) > 0]
        if not inside and not rows and not self._row_terms(algebra):
            alone = algebra == self.whole and operator == self.operator
            return self.moment(operator, algebra, alone=alone)
        if algebra.is_Add:
            apart = [term for term in algebra.args if self.moves(term)]
            rest = sp.Add(*(term for term in algebra.args if term not in apart))
            if apart:
                return sp.Add(*apart) + self.extremum(rest, operator)
        if algebra.is_Mul:
            apart = [factor for factor in algebra.args if self.moves(factor)]
            rest = sp.Mul(*(factor for factor in algebra.args if factor not in apart))
            scale = sp.Mul(*apart)
            other = {"max": "min", "min": "max"}.get(operator)
            if apart and scale.is_positive:
                return scale * self.extremum(rest, operator)
            if apart and scale.is_negative and other is not None:
                return scale * self.extremum(rest, other)
        if isinstance(algebra, sp.log):
            return sp.log(self.extremum(algebra.args[0], operator))
        if _is_power(algebra) and (algebra.as_base_exp()[0] - 1).is_positive:
            base, exponent = algebra.as_base_exp()
            return base ** self.extremum(exponent, operator)
        if isinstance(algebra, sp.Max | sp.Min) and type(algebra).__name__.lower() == operator:
            return algebra.func(*(self.extremum(each, operator) for each in algebra.args))
        if not inside:
            return self.moment(operator, algebra)
        raise UnfitError(self._reason(algebra, inside))

    def _row_terms(self, algebra: sp.Expr) -> bool:
        return algebra.is_Add and any(self.moves(term) and term.free_symbols for term in algebra.args)


def _is_power(algebra: sp.Expr) -> bool:
    """Whether ``algebra`` is a constant raised to something that varies."""
    return isinstance(algebra, sp.exp) or bool(algebra.is_Pow and algebra.base.is_number)


def ranks_match(ranks: tuple[str, ...], einsum: Einsum, rank: str) -> bool:
    """Whether a moment has exactly the ranks of the output of ``einsum``."""
    return set(ranks) - {rank} == set(einsum.output.ranks)
