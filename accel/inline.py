"""Puts one cascade inside another: its Einsums with tensors, ranks, sizes and parameters under other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accel.cascade import Cascade, Einsum
from accel.errors import Place
from accel.expression import (
    Access,
    Condition,
    Expression,
    Index,
    Number,
    Operation,
    ParameterValue,
    RankValue,
    SizeValue,
    Term,
    size_symbol,
)

__all__ = ["Renaming"]


@dataclass(frozen=True, kw_only=True)
class Renaming:
    """New names for what a cascade is made of; what is not named keeps its name.

    Parameters
    ----------
    tensors, ranks, symbols : mapping of str to str
        New name by old name. The size symbols of renamed ranks follow their ranks.
    parameters : mapping of str to Expression
        What stands for a parameter: a number, or another parameter.
    """

    tensors: Mapping[str, str] = field(default_factory=dict)
    ranks: Mapping[str, str] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Expression] = field(default_factory=dict)

    def einsums(self, cascade: Cascade, place: Place | None) -> tuple[Einsum, ...]:
        """Return the Einsums of ``cascade`` under their new names; messages about them point to ``place``."""
        return tuple(self._einsum(einsum, place) for einsum in cascade.einsums)

    def symbol(self, symbol: str) -> str:
        """Return the new name of a size symbol."""
        by_rank = {size_symbol(old): size_symbol(new) for old, new in self.ranks.items()}
        return self.symbols.get(symbol, by_rank.get(symbol, symbol))

    def _einsum(self, einsum: Einsum, place: Place | None) -> Einsum:
        reduction = einsum.reduction
        if reduction is not None:
            ranks = tuple(self.ranks.get(rank, rank) for rank in reduction.ranks)
            reduction = replace(reduction, ranks=ranks, place=place)
        return Einsum(
            output=self._access(einsum.output, place),
            expression=self._expression(einsum.expression, place),
            reduction=reduction,
            conditions=tuple(
                Condition(
                    left=self._index(each.left, place),
                    comparison=each.comparison,
                    right=self._index(each.right, place),
                )
                for each in einsum.conditions
            ),
            comment=einsum.comment,
            place=place,
        )

    def _expression(self, expression: Expression, place: Place | None) -> Expression:
        if isinstance(expression, Access):
            return self._access(expression, place)
        if isinstance(expression, SizeValue):
            return SizeValue(symbol=self.symbol(expression.symbol), place=place)
        if isinstance(expression, RankValue):
            return RankValue(rank=self.ranks.get(expression.rank, expression.rank), place=place)
        if isinstance(expression, ParameterValue):
            return self.parameters.get(expression.name, expression)
        if isinstance(expression, Operation):
            operands = tuple(self._expression(operand, place) for operand in expression.operands)
            if expression.operator == "negate" and isinstance(operands[0], Number):
                return Number(value=-operands[0].value)
            return Operation(operator=expression.operator, operands=operands)
        return expression

    def _access(self, access: Access, place: Place | None) -> Access:
        return Access(
            tensor=self.tensors.get(access.tensor, access.tensor),
            indices=tuple(self._index(index, place) for index in access.indices),
            place=place,
        )

    def _index(self, index: Index, place: Place | None) -> Index:
        terms = (
            Term(
                factor=term.factor,
                symbols=tuple(sorted(map(self.symbol, term.symbols))),
                rank=None if term.rank is None else self.ranks.get(term.rank, term.rank),
            )
            for term in index.terms
        )
        return Index(terms=tuple(terms), place=place)
