"""Writes Einsums over the tiles of a rank: names, indices, elements, and the beginnings of running values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from accel.cascade import Einsum, Reduction
from accel.expression import (
    Access,
    Condition,
    Expression,
    Index,
    Number,
    Operation,
    RankValue,
    SizeValue,
    Term,
    size_symbol,
)
from mapping.derivation.moments import Plan
from mapping.derivation.stabilise import fresh_name

__all__ = ["Tiles", "put"]

_ZERO = Index(terms=())


def put(swaps: Mapping[Access, Expression], expression: Expression) -> Expression:
    """Return ``expression`` with accesses replaced."""
    if isinstance(expression, Access):
        return swaps.get(expression, expression)
    if isinstance(expression, Operation):
        return replace(expression, operands=tuple(put(swaps, each) for each in expression.operands))
    return expression


@dataclass(kw_only=True)
class Tiles:
    """The Einsums written so far, and how to write the next.

    Parameters
    ----------
    plan : Plan
        What is written.
    split : bool
        Tiles have statistics of their own and are merged; else values run from tile to tile.
    starts, body : list of Einsum
        Initial values, and all other Einsums in order.
    kept : set of str
        Tensors of the source that are read as they are.
    done : mapping
        Names of what was written, by what it is.
    names : set of str
        Names in use.
    """

    plan: Plan
    split: bool
    starts: list[Einsum] = field(default_factory=list)
    body: list[Einsum] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    done: dict[object, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        cascade = self.plan.cascade
        self.names.update((*cascade.tensors, *cascade.symbols, *self.plan.leaves))
        rank = self.plan.rank
        taken = {*cascade.ranks, *(each.lower() for each in cascade.symbols)}
        outer, inner = f"{rank}1", f"{rank}0"
        while outer in taken or inner in taken:
            outer, inner = f"{outer[:-1]}t1", f"{inner[:-1]}t0"
        self.outer, self.inner = outer, inner

    def keep(self, name: str) -> None:
        """Keep an Einsum of the source as it is, and all that it reads."""
        if name in self.kept or name in {tensor.name for tensor in self.plan.cascade.inputs}:
            return
        self.kept.add(name)
        sources = [each for each in self.plan.cascade.einsums if each.name == name]
        if name in self.plan.leaves:
            sources = [self.plan.leaves[name]]
        for source in sources:
            for read in source.reads:
                self.keep(read.tensor)

    def fresh(self, wanted: str) -> str:
        """Return an unused name, and take it."""
        name = fresh_name(wanted, self.names)
        self.names.add(name)
        return name

    def write(
        self,
        name: str,
        ranks: Iterable[str],
        expression: Expression,
        *,
        where: tuple[Condition, ...],
        reduction: Reduction | None,
        exact: bool = False,
        step: bool = False,
    ) -> str:
        """Append one Einsum; return its name."""
        unique = name if exact else self.fresh(name)
        indices = tuple(Index.of(rank, int(step and rank == self.outer)) for rank in ranks)
        self.body.append(
            Einsum(
                output=Access(tensor=unique, indices=indices),
                expression=expression,
                reduction=reduction,
                conditions=where,
            )
        )
        return unique

    def tiled(self, index: Index) -> Index:
        """Return ``index`` with the rank written as outer * tile + inner."""
        rank, size = self.plan.rank, size_symbol(self.inner)
        terms: list[Term] = []
        for term in index.terms:
            if term.rank != rank:
                terms.append(term)
                continue
            terms.append(replace(term, rank=self.outer, symbols=tuple(sorted((*term.symbols, size)))))
            terms.append(replace(term, rank=self.inner))
        return Index(terms=tuple(terms))

    def tiled_where(self, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
        """Return conditions on tiles."""
        return tuple(replace(each, left=self.tiled(each.left), right=self.tiled(each.right)) for each in conditions)

    def tiles(self, ranks: Iterable[str]) -> tuple[str, ...]:
        """Return ranks with the analysed one as outer and inner."""
        found: list[str] = []
        for rank in ranks:
            found.extend((self.outer, self.inner) if rank == self.plan.rank else (rank,))
        return tuple(found)

    def element(self, access: Access) -> Access:
        """Return what reads an element of an input, or of an Einsum that depends on no statistic, by tiles."""
        plan = self.plan
        if plan.rank not in access.ranks:
            self.keep(access.tensor)
            return access
        source = self.tileable(access.tensor)
        plain = all(index.rank is not None for index in access.indices)
        if source is None or not plain:
            self.keep(access.tensor)
            return replace(access, indices=tuple(map(self.tiled, access.indices)))
        own = source.output.ranks
        if access.tensor not in self.done:
            swaps = {read: self.element(read) for read in source.reads}
            expression = self.spread(put(swaps, source.expression))
            reduction = source.reduction
            self.done[access.tensor] = self.write(
                f"B{access.tensor}",
                self.tiles(own),
                expression,
                where=self.tiled_where(source.conditions),
                reduction=reduction,
            )
        names = dict(zip(own, (index.rank or "" for index in access.indices), strict=True))
        ranks = self.tiles(names[rank] for rank in own)
        return Access(tensor=self.done[access.tensor], indices=tuple(map(Index.of, ranks)))

    def spread(self, expression: Expression) -> Expression:
        """Return ``expression`` with the coordinate of the rank, as a value, written by tiles."""
        if isinstance(expression, Operation):
            return replace(expression, operands=tuple(map(self.spread, expression.operands)))
        if isinstance(expression, RankValue) and expression.rank == self.plan.rank:
            outer = Operation(
                operator="multiply",
                operands=(replace(expression, rank=self.outer), SizeValue(symbol=size_symbol(self.inner))),
            )
            return Operation(operator="add", operands=(outer, replace(expression, rank=self.inner)))
        return expression

    def tileable(self, name: str) -> Einsum | None:
        """Return the Einsum that writes elements tile by tile; None where ``name`` is an input or no such Einsum."""
        plan = self.plan
        source = plan.leaves.get(name)
        if source is None:
            found = [each for each in plan.cascade.einsums if each.name == name]
            if len(found) != 1 or any(index.rank is None for index in found[0].output.indices):
                return None
            source = found[0]
        indices = [index for read in source.reads for index in read.indices if plan.rank in index.ranks]
        ordered = any(
            plan.rank in each.ranks and set(each.ranks) - set(source.output.ranks) for each in source.conditions
        )
        return None if ordered or any(index.rank is None for index in indices) else source

    def count(self, step: int) -> Expression:
        """Return the number of elements ahead of a tile (step 0) or with it (1): a size is itself a sum, of ones."""
        tile = SizeValue(symbol=size_symbol(self.inner))
        if self.split:
            return tile
        if "count" not in self.done:
            name = self.fresh("RC")
            self.done["count"] = name
            self.start(name, (self.plan.rank,), 0.0)
            old = Access(tensor=name, indices=(Index.of(self.outer),))
            self.write(
                name,
                (self.outer,),
                Operation(operator="add", operands=(old, tile)),
                where=(),
                reduction=None,
                exact=True,
                step=True,
            )
        return Access(tensor=self.done["count"], indices=(Index.of(self.outer, step),))

    def start(self, name: str, ranks: Iterable[str], value: float) -> None:
        """Give the initial value of a running tensor."""
        indices = tuple(_ZERO if rank == self.plan.rank else Index.of(rank) for rank in ranks)
        self.starts.append(Einsum(output=Access(tensor=name, indices=indices), expression=Number(value=value)))
