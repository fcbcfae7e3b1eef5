"""What a derivation works with: moments that are kept, values made of them, and the plan that holds both."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import sympy as sp

from accel.cascade import Cascade, Einsum
from accel.expression import Access, Condition
from mapping.derivation.algebra import Algebra
from mapping.derivation.stabilise import fresh_name
from mapping.derivation.steps import Step

__all__ = ["Blocked", "Correction", "Moment", "Plan", "Value"]


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """What stops a reduction from joining a sweep.

    Parameters
    ----------
    einsum : str
        The Einsum at which it shows.
    reason : str
        Why, in words and with the expression.
    """

    einsum: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Correction:
    """One term of a corrected moment: ``factor`` times the old value of ``moment``.

    ``factor`` is algebra over statistics as they were and, by ``Plan.new``, as they have become.
    """

    factor: sp.Expr
    moment: str


@dataclass(kw_only=True)
class Moment:
    """A reduction over the rank that the derived form keeps.

    Parameters
    ----------
    name : str
        Name of its final value.
    operator : str
        add, max or min.
    body : sympy expression
        What is reduced: elements, and statistics as they run.
    ranks : tuple of str
        The ranks of the moment; the analysed rank stands where tiles are counted.
    inner : tuple of str
        All ranks that are reduced, the analysed one included.
    conditions : tuple of Condition
        The filter of the points.
    level : int
        The sweep in which it is made.
    varying : tuple of sympy symbols
        The statistics of the same sweep that ``body`` depends on.
    corrections : tuple of Correction
        What the old value becomes when those change: their sum. Empty without ``varying``.
    """

    name: str
    operator: str
    body: sp.Expr
    ranks: tuple[str, ...]
    inner: tuple[str, ...]
    conditions: tuple[Condition, ...]
    level: int
    varying: tuple[sp.Symbol, ...] = ()
    corrections: tuple[Correction, ...] = ()


@dataclass(kw_only=True)
class Value:
    """What a tensor that depends on a statistic is made of.

    Parameters
    ----------
    einsum : Einsum
        The Einsum that writes it.
    algebra : sympy expression
        Its value at the indices of its output.
    element : bool
        It has one value for each element; else one for each row.
    level : int
        The sweep after which its statistics are known.
    conditions : tuple of Condition
        Of an element: outside of these its value is 0.
    inline : bool
        Readers look through it; else it is one symbol to them.
    """

    einsum: Einsum
    algebra: sp.Expr
    element: bool
    level: int
    conditions: tuple[Condition, ...] = ()
    inline: bool = True


@dataclass(kw_only=True)
class Plan:
    """The plan of a derivation: moments, values made of them, and what was blocked."""

    cascade: Cascade
    rank: str
    algebra: Algebra = field(default_factory=Algebra)
    moments: dict[str, Moment] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    differences: dict[sp.Symbol, tuple[sp.Expr, sp.Expr]] = field(default_factory=dict)
    leaves: dict[str, Einsum] = field(default_factory=dict)
    blocked: list[Blocked] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    stuck: bool = False
    loops: set[str] = field(default_factory=set)
    _new: dict[sp.Symbol, sp.Symbol] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    @property
    def seen(self) -> sp.Symbol:
        """The number of elements that a running value has taken in; at the end it is the size of the rank."""
        return self.algebra.symbol(Access(tensor="seen"), positive=True)

    def new(self, symbol: sp.Symbol) -> sp.Symbol:
        """Return the symbol of a statistic as it has become."""
        if symbol not in self._new:
            self._new[symbol] = self._companion(symbol, "new")
        return self._new[symbol]

    def _companion(self, symbol: sp.Symbol, mark: str) -> sp.Symbol:
        made = sp.Symbol(f"{symbol.name}'{mark}", **({"positive": True} if symbol.is_positive else {"real": True}))
        node = self.algebra.meaning[symbol]
        assert isinstance(node, Access)
        self.algebra.meaning[made] = replace(node, tensor=f"{node.tensor}'")
        return made

    def old_of(self, symbol: sp.Symbol) -> sp.Symbol | None:
        """Return the statistic of which ``symbol`` is the new value; None if it is none."""
        return next((old for old, new in self._new.items() if new == symbol), None)

    def fresh(self, wanted: str) -> str:
        """Return an unused tensor name, and take it."""
        name = fresh_name(wanted, self.names)
        self.names.add(name)
        return name

    # What depends on what.

    def over_rank(self, expression: sp.Expr) -> bool:
        """Whether ``expression`` has one value for each element."""
        return self.rank in self.algebra.ranks(expression)

    def level(self, symbol: sp.Symbol) -> int:
        """Return the sweep after which ``symbol`` is known; an element of an input belongs to sweep 1."""
        access = self.algebra.access(symbol)
        if symbol in self.differences:
            return max(map(self.level, sp.Add(*self.differences[symbol]).free_symbols))
        if access is not None and access.tensor in self.values:
            value = self.values[access.tensor]
            return value.level + value.element
        if access is not None and access.tensor in self.moments:
            return self.moments[access.tensor].level
        return int(access is not None and (self.rank in access.ranks or access.tensor in self.loops))

    def statistics(self, expression: sp.Expr, at_least: int = 1) -> list[sp.Symbol]:
        """Return the row statistics in ``expression`` that are known after sweep ``at_least`` or later."""
        found = [
            symbol
            for symbol in expression.free_symbols
            if symbol not in self.differences and not self.over_rank(symbol) and self.level(symbol) >= at_least
        ]
        return sorted(found, key=str)

    def plain(self, expression: sp.Expr) -> sp.Expr:
        """Return ``expression`` with differences spelled out."""
        return expression.xreplace({symbol: sp.Add(*pair) for symbol, pair in self.differences.items()})

    def text(self, expression: sp.Expr) -> str:
        """Return algebra in the notation."""
        return self.algebra.text(self.plain(expression))
