"""Writes a plan as a cascade: tiles of the rank, running values with their corrections, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy as sp

from accel.cascade import Cascade, Einsum, Reduction
from accel.expression import (
    Access,
    Condition,
    Expression,
    Index,
    Number,
    Operation,
    SizeValue,
    Term,
    accesses,
    size_symbol,
)
from mapping.derivation.moments import Moment, Plan, Value
from mapping.derivation.tiles import Tiles, put

__all__ = ["FORMS", "rewrite"]

FORMS: tuple[str, ...] = ("running", "split")
"""Running values that are corrected tile by tile, or tiles with statistics of their own that are merged at the end."""

# Stands for -inf where that would meet itself or 0 in a correction and give NaN: behind a filter that may leave out a
# whole first tile, and in corrections that are no pure exponential.
_FLOOR = -1e30


def rewrite(plan: Plan, form: str) -> Cascade:
    """Return the derived cascade.

    Parameters
    ----------
    plan : Plan
        What is kept, and how it is corrected.
    form : str
        One of ``FORMS``.
    """
    return _Rewriter(plan=plan, split=form == "split").cascade()


@dataclass(kw_only=True)
class _Rewriter(Tiles):
    """Writes a plan; see ``rewrite``."""

    # The whole.

    def cascade(self) -> Cascade:
        """Return the derived cascade; outputs in their old order."""
        source = self.plan.cascade
        for name in source.outputs:
            self.result(name)
        early = [each for each in (*source.einsums,) if each.name in self.kept]
        leaves = [each for each in self.plan.leaves.values() if each.name in self.kept]
        return Cascade(
            name=source.name,
            inputs=source.inputs,
            einsums=(*self.starts, *early, *leaves, *self.body),
            outputs=source.outputs,
            description=f"Derived from {source.name} over {self.plan.rank} by einrtl derive.",
            parameters=source.parameters,
        )

    def result(self, name: str) -> None:
        """Write everything that the output ``name`` needs."""
        plan = self.plan
        if name in plan.moments:
            moment = plan.moments[name]
            output = plan.cascade.einsum(name).output
            final = self.final(moment)
            if isinstance(final, Access) and final.tensor == name:
                return
            self.write(output.tensor, output.ranks, final, where=(), reduction=None, exact=True)
        elif name in plan.values:
            self.plain(plan.values[name])
        else:
            self.keep(name)

    # Values of the row once a sweep is over.

    def final(self, moment: Moment) -> Expression:
        """Return the value of a moment after its sweep."""
        if not moment.body.free_symbols and not moment.conditions:
            return Number(value=float(moment.body))
        if moment.operator == "top":
            return self.ordered(moment)
        if self.split:
            return self.merged(moment)
        name = self.running(moment)
        indices = (
            Index(terms=(Term(symbols=(size_symbol(self.outer),)),)) if rank == self.plan.rank else Index.of(rank)
            for rank in moment.ranks
        )
        return Access(tensor=name, indices=tuple(indices))

    def ordered(self, moment: Moment) -> Expression:
        """Write the largest values in order; the reduction keeps them itself, so it is not tiled."""
        plan = self.plan
        ranks = tuple(rank for rank in moment.ranks if rank != plan.rank)
        key = ("ordered", moment.name)
        if key not in self.done:
            name = moment.name if moment.name in plan.cascade.outputs else self.fresh(moment.name)
            self.done[key] = name
            for symbol in moment.body.free_symbols:
                node = plan.algebra.meaning[symbol]
                if isinstance(node, Access):
                    self.keep(node.tensor)
            reduction = Reduction(operator="top", ranks=moment.inner)
            body = plan.algebra.to_expression(moment.body)
            self.write(name, ranks, body, where=moment.conditions, reduction=reduction, exact=True)
        return Access(tensor=self.done[key], indices=tuple(map(Index.of, ranks)))

    def final_symbol(self, symbol: sp.Symbol) -> Expression:
        """Return the value of a symbol of the row after its sweep."""
        plan = self.plan
        node = plan.algebra.meaning[symbol]
        if not isinstance(node, Access):
            return node
        return self.read_final(node)

    def plain(self, value: Value) -> str:
        """Write the Einsum of a value as it stands in the source, reading final values; return its name."""
        plan, einsum = self.plan, value.einsum
        key = ("plain", einsum.name)
        if key in self.done:
            return self.done[key]
        reduced = einsum.reduction is not None and plan.rank in einsum.reduction.ranks
        if reduced:
            expression = plan.algebra.to_expression(value.algebra, self.final_symbol)
        else:
            expression = put({read: self.read_final(read) for read in einsum.reads}, einsum.expression)
        self.done[key] = einsum.name
        self.body.append(
            replace(
                einsum,
                expression=expression,
                reduction=None if reduced else einsum.reduction,
                conditions=() if reduced else einsum.conditions,
                comment="" if reduced else einsum.comment,
            )
        )
        return einsum.name

    def read_final(self, read: Access) -> Expression:
        """Return what an Einsum after the sweeps reads in place of ``read``."""
        plan = self.plan
        if read.tensor in plan.moments:
            final = self.final(plan.moments[read.tensor])
            return self.at(final, self.own_ranks(read.tensor), read) if isinstance(final, Access) else final
        if read.tensor in plan.values:
            return replace(read, tensor=self.plain(plan.values[read.tensor]))
        self.keep(read.tensor)
        return read

    def own_ranks(self, name: str) -> tuple[str, ...]:
        """Return the ranks of a statistic in the order in which its symbol is indexed."""
        plan = self.plan
        if name in plan.cascade.tensors:
            return plan.cascade.einsum(name).output.ranks
        return tuple(rank for rank in plan.moments[name].ranks if rank != plan.rank)

    def at(self, access: Access, own: tuple[str, ...], read: Access) -> Access:
        """Return ``access`` with the indices by which ``read`` names the ranks ``own``."""
        names = dict(zip(own, read.indices, strict=True))
        return replace(access, indices=tuple(names.get(index.rank or "", index) for index in access.indices))

    # Sweeps.

    def symbol(self, level: int, at: str) -> Callable[[sp.Symbol], Expression]:
        """Return what stands for a symbol inside sweep ``level``; ``at`` is old or new for running statistics."""

        def value(symbol: sp.Symbol) -> Expression:
            plan = self.plan
            old = plan.old_of(symbol)
            if old is not None:
                return self.final_symbol(old) if self.split else self.statistic(old, level, "new")
            if symbol in plan.differences:
                return self.write_algebra(plan.plain(symbol), level, at)
            if plan.over_rank(symbol):
                node = plan.algebra.meaning[symbol]
                return self.element(node) if isinstance(node, Access) else self.spread(node)
            if plan.level(symbol) >= level:
                return self.statistic(symbol, level, at)
            return self.final_symbol(symbol)

        return value

    def write_algebra(self, algebra: sp.Expr, level: int, at: str = "new") -> Expression:
        """Return algebra as it is computed inside sweep ``level``."""
        return self.plan.algebra.to_expression(algebra, self.symbol(level, at))

    def statistic(self, symbol: sp.Symbol, level: int, at: str) -> Expression:
        """Return a statistic as it runs: after the tile (new), ahead of it (old), or of the tile alone (split)."""
        plan = self.plan
        node = plan.algebra.meaning[symbol]
        assert isinstance(node, Access)
        if node.tensor in plan.moments:
            moment = plan.moments[node.tensor]
            name = self.local(moment) if self.split else self.running(moment)
            ranks = moment.ranks
        else:
            name, ranks = self.running_value(plan.values[node.tensor], level)
        step = 0 if self.split or at == "old" else 1
        indices = (Index.of(self.outer, step) if rank == plan.rank else Index.of(rank) for rank in ranks)
        return self.at(Access(tensor=name, indices=tuple(indices)), self.own_ranks(node.tensor), node)

    def running_value(self, value: Value, level: int) -> tuple[str, tuple[str, ...]]:
        """Write a value of the row made of moments as it runs; return its name and ranks."""
        plan = self.plan
        ranks = (*value.einsum.output.ranks, plan.rank)
        key = ("running", value.einsum.name)
        if key not in self.done:
            algebra = value.algebra
            whole = plan.algebra.symbol(SizeValue(symbol=size_symbol(plan.rank)))
            count: Expression | None = None
            if algebra.has(whole):
                count = self.count(1)
            inside = self.symbol(level, "new")
            expression = plan.algebra.to_expression(
                algebra, lambda each: count if each == whole and count is not None else inside(each)
            )
            name = self.fresh(f"{'L' if self.split else 'R'}{value.einsum.name}")
            self.done[key] = name
            stand = tuple(self.outer if rank == plan.rank else rank for rank in ranks)
            if not self.split:
                self.start(name, ranks, self._first(algebra, level))
            self.write(name, stand, expression, where=(), reduction=None, exact=True, step=not self.split)
        return self.done[key], ranks

    def _first(self, algebra: sp.Expr, level: int) -> float:
        """Return the value ahead of the first tile; any finite one is right where the algebra has none."""
        swaps = {}
        for symbol in algebra.free_symbols:
            node = self.plan.algebra.meaning[symbol]
            if isinstance(node, Access) and node.tensor in self.plan.moments:
                swaps[symbol] = sp.Float(self._identity(self.plan.moments[node.tensor]))
        first = algebra.subs(swaps)
        if first.is_number and first.is_real and math.isfinite(float(first)):
            return float(first)
        falls = first == -sp.oo or (first.has(sp.oo, -sp.oo) and not first.is_number)
        return -math.inf if falls else 0.0

    def _identity(self, moment: Moment) -> float:
        if moment.operator == "add":
            return 0.0
        floor = _FLOOR if moment.conditions or self._meets_itself(moment) else -math.inf
        return floor if moment.operator == "max" else -floor

    def _meets_itself(self, moment: Moment) -> bool:
        """Whether a correction uses the change of this extremum other than in an exponential, where -inf gives 0."""
        for each in self.plan.moments.values():
            for correction in each.corrections:
                factor = correction.factor
                used = {self.plan.old_of(symbol) or symbol for symbol in factor.free_symbols}
                names = {symbol.name.partition("[")[0] for symbol in used}
                if moment.name in names and not (
                    isinstance(factor, sp.exp) or (factor.is_Pow and factor.base.is_number)
                ):
                    return True
        return False

    # Moments.

    def local(self, moment: Moment) -> str:
        """Write the reduction of one tile; return its name."""
        key = ("local", moment.name)
        if key not in self.done:
            body = self.factors(moment)
            ranks = tuple(self.outer if rank == self.plan.rank else rank for rank in moment.ranks)
            inner = self._in_order(
                body, moment, [self.inner if r == self.plan.rank else r for r in moment.inner], ranks
            )
            self.done[key] = self.write(
                f"L{moment.name}",
                ranks,
                body,
                where=self.tiled_where(moment.conditions),
                reduction=Reduction(operator=moment.operator, ranks=inner),
            )
        return self.done[key]

    def _in_order(self, body: Expression, moment: Moment, inner: list[str], output: tuple[str, ...]) -> tuple[str, ...]:
        ranks = Einsum(
            output=Access(tensor="X", indices=tuple(map(Index.of, output))),
            expression=body,
            conditions=self.tiled_where(moment.conditions),
        ).ranks
        return tuple(rank for rank in ranks if rank in inner)

    def running(self, moment: Moment) -> str:
        """Write the running value of a moment with its correction; return its name."""
        key = ("running", moment.name)
        if key in self.done:
            return self.done[key]
        name = self.fresh(f"R{moment.name}")
        self.done[key] = name
        self.start(name, moment.ranks, self._identity(moment))
        local = self.local(moment)
        ranks = tuple(self.outer if rank == self.plan.rank else rank for rank in moment.ranks)
        old: Expression = Access(tensor=name, indices=tuple(map(Index.of, ranks)))
        now: Expression = Access(tensor=local, indices=tuple(map(Index.of, ranks)))
        if moment.corrections:
            corrected = self.write(f"S{moment.name}", ranks, self.corrected(moment), where=(), reduction=None)
            old = Access(tensor=corrected, indices=tuple(map(Index.of, ranks)))
            joined = Operation(operator="add", operands=(now, old))
        else:
            operator = moment.operator
            joined = Operation(operator=operator, operands=(old, now))
        self.write(name, ranks, joined, where=(), reduction=None, exact=True, step=True)
        return name

    def corrected(self, moment: Moment) -> Expression:
        """Return the sum of corrected old (or, split, local) values."""
        total: Expression | None = None
        for each in moment.corrections:
            term = self.correction(each.factor, moment.level)
            if each.moment:
                kept = self.plan.moments[each.moment]
                name = self.local(kept) if self.split else self.running(kept)
                indices = (Index.of(self.outer if rank == self.plan.rank else rank) for rank in kept.ranks)
                value: Expression = Access(tensor=name, indices=tuple(indices))
                term = value if term is None else Operation(operator="multiply", operands=(value, term))
            assert term is not None
            total = term if total is None else Operation(operator="add", operands=(total, term))
        assert total is not None
        return total

    def correction(self, factor: sp.Expr, level: int) -> Expression | None:
        """Return a correction factor, computed once for all moments that share it; None for 1."""
        if factor == 1:
            return None
        factor = sp.factor_terms(factor)
        atoms = [each for each in sp.Mul.make_args(factor) if each.free_symbols and not each.is_Symbol]
        swaps: dict[sp.Expr, sp.Symbol] = {}
        for each in atoms if len(sp.Mul.make_args(factor)) > 1 or _is_whole_power(factor) else ():
            base = each.base if _is_whole_power(each) else each
            written = self.correction(base, level)
            assert written is not None
            swaps[base] = self.plan.algebra.symbol(written)
        factor = factor.xreplace(swaps)
        inside = self.symbol(level, "old")
        known = {symbol: self.plan.algebra.meaning[symbol] for symbol in swaps.values()}
        known[self.plan.seen] = self.count(0) if factor.has(self.plan.seen) else Number(value=0.0)
        expression = self.plan.algebra.to_expression(
            factor, lambda each: known[each] if each in known else inside(each)
        )
        if not accesses(expression):
            return expression
        key = ("factor", str(expression))
        if key not in self.done:
            reads = accesses(expression)
            found = dict.fromkeys(rank for read in reads for rank in read.ranks)
            ranks = (*(rank for rank in found if rank != self.outer), self.outer)
            self.done[key] = self.write("CF", ranks, expression, where=(), reduction=None)
        return next(each for each in self.body if each.name == self.done[key]).output

    def merged(self, moment: Moment) -> Expression:
        """Write the merge of all tiles (split form); return its access."""
        key = ("merged", moment.name)
        if key not in self.done:
            free = moment.name in self.plan.cascade.outputs
            name = moment.name if free else self.fresh(f"G{moment.name}")
            self.done[key] = name
            local = self.local(moment)
            ranks = tuple(self.outer if rank == self.plan.rank else rank for rank in moment.ranks)
            body: Expression = Access(tensor=local, indices=tuple(map(Index.of, ranks)))
            if moment.corrections:
                body = self.corrected(moment)
            self.write(
                name,
                (rank for rank in ranks if rank != self.outer),
                body,
                where=(),
                reduction=Reduction(operator=moment.operator, ranks=(self.outer,)),
                exact=True,
            )
        ranks = tuple(rank for rank in moment.ranks if rank != self.plan.rank)
        return Access(tensor=self.done[key], indices=tuple(map(Index.of, ranks)))

    # Bodies of moments.

    def factors(self, moment: Moment) -> Expression:
        """Return what one tile reduces; factors with the ranks of a score become an Einsum of their own."""
        groups = self.groups(moment.body)
        if len(groups) == 1 and not self._shared(groups[0], moment):
            return self.product(groups[0], moment)
        written = [self.group(each, moment) for each in groups]
        result = written[0]
        for each in written[1:]:
            result = Operation(operator="multiply", operands=(result, each))
        return result

    def groups(self, body: sp.Expr) -> list[sp.Expr]:
        """Return the factors of ``body``, those multiplied first whose ranks another one has as well."""
        plan = self.plan
        factors = sorted(_factors(body), key=lambda each: plan.algebra.order(plan.plain(each)))
        if len(factors) == 1:
            return factors
        ranks = [plan.algebra.ranks(each) for each in factors]
        wide = [
            n
            for n, own in enumerate(ranks)
            if not any(own < other or (own == other and k < n) for k, other in enumerate(ranks))
        ]
        found = {n: factors[n] for n in wide}
        for n, factor in enumerate(factors):
            if n in found:
                continue
            hosts = [k for k in wide if ranks[n] <= ranks[k]]
            # What depends on no statistic can be computed ahead of the sweep, once for all rows.
            host = min(hosts, key=lambda k: (bool(plan.statistics(plan.plain(factors[k]))), k))
            found[host] *= factor
        return [found[n] for n in wide]

    def _shared(self, group: sp.Expr, moment: Moment) -> bool:
        if group.is_Symbol and group not in self.plan.differences:
            return False
        same = [m for m in self.plan.moments.values() if m.level == moment.level]
        plain = self.plan.plain(group)
        uses = [
            m
            for m in same
            if any(self.plan.plain(each) == plain or group in _factors(each) for each in self.groups(m.body))
        ]
        return len(uses) > 1

    def _in_other_group(self, factor: sp.Expr, group: sp.Expr, moment: Moment) -> bool:
        """Whether a factor that is no tensor occurs in another group of factors of the same sweep."""
        if factor.is_Symbol and factor not in self.plan.differences:
            return False
        own, plain = self.plan.plain(group), self.plan.plain(factor)
        moments = (m for m in self.plan.moments.values() if m.level == moment.level)
        others = [each for m in moments for each in self.groups(m.body) if self.plan.plain(each) != own]
        return any(self.plan.plain(each) == plain or factor in _factors(each) for each in others)

    def group(self, group: sp.Expr, moment: Moment) -> Expression:
        """Return one group of factors, as an Einsum of its own unless it is a tensor already."""
        plan, level = self.plan, moment.level
        if group.is_Symbol and group not in plan.differences:
            return self.write_algebra(group, level)
        plain = plan.plain(group)
        key = ("group", plain, level, moment.conditions)
        if key not in self.done:
            expression = self.product(group, moment)
            ranks = self._rank_order(plain, moment)
            name = self._source_name(plain) or f"N{moment.name}"
            self.done[key] = self.write(
                f"L{name}",
                self.tiles(ranks),
                expression,
                where=self.tiled_where(self._fitting(moment, ranks)),
                reduction=None,
            )
        einsum = next(each for each in self.body if each.name == self.done[key])
        return einsum.output

    def product(self, group: sp.Expr, moment: Moment) -> Expression:
        """Return a product; factors that other moments have as well are read from an Einsum of their own."""
        factors = _factors(group)
        shared = [each for each in factors if len(factors) > 1 and self._in_other_group(each, group, moment)]
        rest = sp.Mul(*(each for each in factors if each not in shared))
        written = [] if rest == 1 and shared else [self.write_algebra(rest, moment.level)]
        written += [self.group(each, moment) for each in shared]
        result = written[0]
        for each in written[1:]:
            result = Operation(operator="multiply", operands=(result, each))
        return result

    def _fitting(self, moment: Moment, ranks: tuple[str, ...]) -> tuple[Condition, ...]:
        return tuple(each for each in moment.conditions if set(each.ranks) <= set(ranks))

    def _rank_order(self, plain: sp.Expr, moment: Moment) -> tuple[str, ...]:
        ranks = self.plan.algebra.ranks(plain)
        order = dict.fromkeys(rank for rank in (*moment.ranks, *moment.inner))
        return tuple(rank for rank in order if rank in ranks)

    def _source_name(self, plain: sp.Expr) -> str:
        for name, value in self.plan.values.items():
            if value.element and self.plan.plain(value.algebra) == plain:
                return name
        return ""


def _is_whole_power(factor: sp.Expr) -> bool:
    return bool(factor.is_Pow and factor.exp.is_Integer)


def _factors(product: sp.Expr) -> list[sp.Expr]:
    """Return the factors of a product, those of small powers one by one."""
    found: list[sp.Expr] = []
    for factor in sp.Mul.make_args(product):
        whole = _is_whole_power(factor) and factor.exp > 1
        found.extend([factor.base] * int(factor.exp) if whole else [factor])
    return found
