"""The right-hand side of an Einsum as data: affine indices, tensor accesses, arithmetic, and filter conditions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from accel.errors import Place

__all__ = [
    "COMPARISONS",
    "COMPARISON_OPERATORS",
    "FUNCTIONS",
    "Access",
    "Condition",
    "Expression",
    "Index",
    "Number",
    "Operation",
    "ParameterValue",
    "RankValue",
    "SizeValue",
    "Term",
    "accesses",
    "expression_ranks",
    "nodes",
    "size_symbol",
    "size_symbols",
]

FUNCTIONS: Mapping[str, int] = {
    "abs": 1,
    "cos": 1,
    "erf": 1,
    "exp": 1,
    "floor": 1,
    "log": 1,
    "log1p": 1,
    "max": 2,
    "min": 2,
    "pow": 2,
    "relu": 1,
    "round": 1,
    "rsqrt": 1,
    "select": 3,
    "sigmoid": 1,
    "sin": 1,
    "sqrt": 1,
    "tanh": 1,
}
"""Functions that an expression may call, with their number of operands.

``round`` takes halves to the even number; ``select(c, a, b)`` is ``a`` where ``c`` is not 0, and ``b`` elsewhere.
"""

COMPARISONS: tuple[str, ...] = ("<=", "<", ">=", ">", "==", "!=")
"""Comparison operators of a filter condition, and of comparisons as values."""

COMPARISON_OPERATORS: Mapping[str, str] = {
    "at_most": "<=",
    "less": "<",
    "at_least": ">=",
    "greater": ">",
    "equal": "==",
    "unequal": "!=",
}
"""Comparisons as operators of an expression: 1 where they hold, 0 elsewhere."""

_INFIX = {
    "add": ("+", 1),
    "subtract": ("-", 1),
    "multiply": ("*", 2),
    "divide": ("/", 2),
    **{name: (sign, 0) for name, sign in COMPARISON_OPERATORS.items()},
}
_UNARY_STRENGTH = 3


def size_symbol(rank: str) -> str:
    """Return the size symbol of ``rank``: its name in upper case (rank ``m1`` has size ``M1``)."""
    return rank.upper()


@dataclass(frozen=True, kw_only=True)
class Term:
    """One term of an index: ``factor * symbols... * rank``; without a rank it is constant.

    Parameters
    ----------
    factor : int
        Whole-number coefficient.
    symbols : tuple of str
        Size symbols that multiply it, sorted.
    rank : str, optional
        The rank variable.
    """

    factor: int = 1
    symbols: tuple[str, ...] = ()
    rank: str | None = None

    def value(self, sizes: Mapping[str, int]) -> int:
        """Return the coefficient ``factor * symbols...`` for the sizes given."""
        return self.factor * math.prod(sizes[symbol] for symbol in self.symbols)

    def __str__(self) -> str:
        """Return the term as written, without its sign."""
        parts = [*([self.rank] if self.rank else []), *self.symbols]
        if abs(self.factor) != 1 or not parts:
            parts.insert(0, str(abs(self.factor)))
        return "*".join(parts)


@dataclass(frozen=True, kw_only=True)
class Index:
    """An affine index expression such as ``m``, ``m1+1``, ``m1*M0+m0``, ``0`` or ``M1``.

    Parameters
    ----------
    terms : tuple of Term
        Their sum is the coordinate; no two terms have equal rank and symbols.
    place : Place, optional
        Where it was written.
    """

    terms: tuple[Term, ...]
    place: Place | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, rank: str, offset: int = 0) -> Index:
        """Return the index ``rank + offset``."""
        terms = (Term(rank=rank),) if offset == 0 else (Term(rank=rank), Term(factor=offset))
        return cls(terms=terms)

    @cached_property
    def ranks(self) -> tuple[str, ...]:
        """Rank variables in order of appearance, each once."""
        return tuple(dict.fromkeys(term.rank for term in self.terms if term.rank is not None))

    @property
    def symbols(self) -> tuple[str, ...]:
        """Size symbols that it mentions, in order of appearance."""
        return tuple(dict.fromkeys(symbol for term in self.terms for symbol in term.symbols))

    @property
    def shift(self) -> tuple[str, int] | None:
        """``(rank, offset)`` where the index is ``rank + offset`` with a whole number; else None."""
        if len(self.ranks) != 1 or self.terms[0] != Term(rank=self.ranks[0]):
            return None
        rest = self.terms[1:]
        if any(term.rank is not None or term.symbols for term in rest):
            return None
        return self.ranks[0], sum(term.factor for term in rest)

    @property
    def rank(self) -> str | None:
        """The rank where the index is one rank variable and nothing else; else None."""
        return self.shift[0] if self.shift is not None and self.shift[1] == 0 else None

    @property
    def constant(self) -> int | None:
        """The coordinate where the index is a whole number; else None."""
        if any(term.rank is not None or term.symbols for term in self.terms):
            return None
        return sum(term.factor for term in self.terms)

    @property
    def final_symbol(self) -> str | None:
        """The symbol where the index is one size symbol (``M1``: the coordinate after the last step); else None."""
        if len(self.terms) != 1:
            return None
        term = self.terms[0]
        return term.symbols[0] if term.rank is None and term.factor == 1 and len(term.symbols) == 1 else None

    @cached_property
    def digits(self) -> tuple[str, ...] | None:
        """Ranks from outermost to innermost where the index numbers the tiles of a partition; else None.

        ``m1*M0+m0`` has the digits ``(m1, m0)``, ``m2*M1*M0+m1*M0+m0`` has ``(m2, m1, m0)``.
        """
        if len(self.terms) < 2 or len(self.ranks) != len(self.terms) or any(term.factor != 1 for term in self.terms):
            return None
        inner: list[str] = []
        for term in sorted(self.terms, key=lambda term: len(term.symbols)):
            if term.rank is None or term.symbols != tuple(sorted(map(size_symbol, inner))):
                return None
            inner.append(term.rank)
        return tuple(reversed(inner))

    def affine(self, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """Return the coefficient of each rank, and the constant, for the sizes given."""
        coefficients: dict[str, int] = {}
        constant = 0
        for term in self.terms:
            if term.rank is None:
                constant += term.value(sizes)
            else:
                coefficients[term.rank] = coefficients.get(term.rank, 0) + term.value(sizes)
        return coefficients, constant

    def __str__(self) -> str:
        """Return the index as the notation writes it."""
        text = ""
        for term in self.terms:
            sign = "-" if term.factor < 0 else ("+" if text else "")
            text += f"{sign}{term}"
        return text or "0"


@dataclass(frozen=True, kw_only=True)
class Access:
    """A tensor at an index for each of its ranks: ``K[m1*M0+m0,e]``.

    Parameters
    ----------
    tensor : str
        Name of the tensor.
    indices : tuple of Index
        One for each rank of the tensor; empty for a scalar.
    place : Place, optional
        Where it was written.
    """

    tensor: str
    indices: tuple[Index, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)

    @cached_property
    def ranks(self) -> tuple[str, ...]:
        """Rank variables in order of appearance, each once."""
        return tuple(dict.fromkeys(rank for index in self.indices for rank in index.ranks))

    @property
    def final_ranks(self) -> tuple[str, ...]:
        """Ranks read at their final coordinate: ``RM[p,M1]`` is read once the whole iteration over ``m1`` is done."""
        return tuple(index.final_symbol.lower() for index in self.indices if index.final_symbol is not None)

    def __str__(self) -> str:
        """Return the access as the notation writes it."""
        return f"{self.tensor}[{','.join(map(str, self.indices))}]" if self.indices else self.tensor


@dataclass(frozen=True, kw_only=True)
class Number:
    """A constant, possibly infinite."""

    value: float

    def __str__(self) -> str:
        """Return the shortest text that reads back to the same value."""
        if math.isinf(self.value):
            return "inf" if self.value > 0 else "-inf"
        whole = self.value.is_integer() and abs(self.value) < 1e15
        return str(int(self.value)) if whole and str(self.value) != "-0.0" else repr(self.value)


@dataclass(frozen=True, kw_only=True)
class SizeValue:
    """The size of a rank, or a free parameter, as a value: ``E`` in ``1 / sqrt(E)``."""

    symbol: str
    place: Place | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the symbol."""
        return self.symbol


@dataclass(frozen=True, kw_only=True)
class ParameterValue:
    """A declared parameter as a value: ``tau`` in ``X[p,m] / tau``."""

    name: str
    place: Place | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the name."""
        return self.name


@dataclass(frozen=True, kw_only=True)
class RankValue:
    """The coordinate of a rank as a value: ``p`` in ``log(p + 1)``."""

    rank: str
    place: Place | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the rank."""
        return self.rank


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operator applied to operands.

    Parameters
    ----------
    operator : str
        add, subtract, multiply, divide (two operands), negate (one), or a name of ``FUNCTIONS`` or of
        ``COMPARISON_OPERATORS``.
    operands : tuple of Expression
        In written order.
    """

    operator: str
    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        """Return the expression with the fewest parentheses that keep its tree."""
        # A comparison stands in parentheses unless it is an operand of a function.
        return _text(self, 1)


Expression: TypeAlias = Access | Number | SizeValue | ParameterValue | RankValue | Operation


def _strength(expression: Expression) -> int:
    """Return how tightly the printed expression holds together."""
    if isinstance(expression, Operation):
        if expression.operator == "negate":
            return _UNARY_STRENGTH
        return _INFIX.get(expression.operator, ("", _UNARY_STRENGTH + 1))[1]
    if isinstance(expression, Number) and str(expression).startswith("-"):
        return _UNARY_STRENGTH
    return _UNARY_STRENGTH + 1


def _text(expression: Expression, at_least: int = 0) -> str:
    if not isinstance(expression, Operation):
        text = str(expression)
    elif expression.operator in _INFIX:
        sign, strength = _INFIX[expression.operator]
        left, right = expression.operands
        # Infix operators associate to the left, so an equally strong right operand keeps its parentheses.
        text = f"{_text(left, strength or 1)} {sign} {_text(right, strength + 1)}"
    elif expression.operator == "negate":
        text = f"-{_text(expression.operands[0], _UNARY_STRENGTH)}"
    else:
        text = f"{expression.operator}({', '.join(map(_text, expression.operands))})"
    return f"({text})" if _strength(expression) < at_least else text


def nodes(expression: Expression) -> Iterator[Expression]:
    """Yield ``expression`` and all below it, operands from left to right."""
    yield expression
    if isinstance(expression, Operation):
        for operand in expression.operands:
            yield from nodes(operand)


def accesses(expression: Expression) -> tuple[Access, ...]:
    """Return the accesses of ``expression`` in order of first appearance, each once."""
    return tuple(dict.fromkeys(node for node in nodes(expression) if isinstance(node, Access)))


def expression_ranks(expression: Expression) -> tuple[str, ...]:
    """Return the ranks on which ``expression`` depends: those of its accesses, then those that are values."""
    known = list(nodes(expression))
    ranks = [rank for node in known if isinstance(node, Access) for rank in node.ranks]
    return tuple(dict.fromkeys([*ranks, *(node.rank for node in known if isinstance(node, RankValue))]))


def size_symbols(expression: Expression) -> tuple[str, ...]:
    """Return the size symbols that ``expression`` mentions, in values and in indices."""
    found: dict[str, None] = {}
    for node in nodes(expression):
        if isinstance(node, SizeValue):
            found[node.symbol] = None
        elif isinstance(node, Access):
            found.update((symbol, None) for index in node.indices for symbol in index.symbols)
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """An affine comparison that filters the points of an Einsum: ``m <= p``.

    Parameters
    ----------
    left, right : Index
        The two sides.
    comparison : str
        One of ``COMPARISONS``.
    """

    left: Index
    comparison: str
    right: Index

    @property
    def ranks(self) -> tuple[str, ...]:
        """Rank variables of both sides, each once."""
        return tuple(dict.fromkeys((*self.left.ranks, *self.right.ranks)))

    @property
    def symbols(self) -> tuple[str, ...]:
        """Size symbols of both sides, each once."""
        return tuple(dict.fromkeys((*self.left.symbols, *self.right.symbols)))

    def difference(self, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """Return ``left - right`` as the coefficient of each rank and a constant; it is compared with 0."""
        coefficients, constant = self.left.affine(sizes)
        right, right_constant = self.right.affine(sizes)
        for rank, factor in right.items():
            coefficients[rank] = coefficients.get(rank, 0) - factor
        return {rank: factor for rank, factor in coefficients.items() if factor}, constant - right_constant

    def __str__(self) -> str:
        """Return the condition as the notation writes it."""
        return f"{self.left} {self.comparison} {self.right}"
