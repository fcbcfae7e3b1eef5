"""Expressions of Einsums as sympy expressions, and the algebra that the rules of a derivation rest on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import sympy as sp

from accel.expression import FUNCTIONS, Access, Expression, Index, Number, Operation, SizeValue

__all__ = ["Algebra", "Part", "common_scale", "is_zero", "parts", "renamed"]


# Up to here a fraction 1/n is written as a division; beyond it is more likely to have been written as a decimal.
_SMALL = 64


def renamed(access: Access, names: Mapping[str, str]) -> Access:
    """Return ``access`` with its rank variables replaced."""
    indices = (
        Index(terms=tuple(replace(term, rank=names.get(term.rank or "", term.rank)) for term in index.terms))
        for index in access.indices
    )
    return Access(tensor=access.tensor, indices=tuple(indices))


def is_zero(expression: sp.Expr) -> bool:
    """Whether ``expression`` is identically zero."""
    return bool(expression == 0 or sp.simplify(expression) == 0)


@dataclass(kw_only=True)
class Algebra:
    """The symbols of one derivation: each access, size and parameter is one symbol, and back.

    A symbol is real; sizes, and values known to be sums of exponentials, are positive. Equal accesses are one symbol.
    """

    meaning: dict[sp.Symbol, Expression] = field(default_factory=dict)
    _symbols: dict[str, sp.Symbol] = field(default_factory=dict)
    _order: dict[sp.Symbol, int] = field(default_factory=dict)

    def symbol(self, node: Expression, *, positive: bool = False) -> sp.Symbol:
        """Return the symbol of an access, a size or an infinite constant."""
        key = str(node)
        if key not in self._symbols:
            known = positive or isinstance(node, SizeValue)
            made = sp.Symbol(key, positive=True) if known else sp.Symbol(key, real=True)
            self._symbols[key] = made
            self.meaning[made] = node
            self._order[made] = len(self._order)
        return self._symbols[key]

    def access(self, symbol: sp.Symbol) -> Access | None:
        """Return the access that ``symbol`` stands for; None for a size or a constant."""
        node = self.meaning[symbol]
        return node if isinstance(node, Access) else None

    def ranks(self, expression: sp.Expr) -> frozenset[str]:
        """Return the rank variables that ``expression`` depends on."""
        found: set[str] = set()
        for symbol in expression.free_symbols:
            node = self.meaning[symbol]
            if isinstance(node, Access):
                found.update(node.ranks)
            elif hasattr(node, "rank"):  # the coordinate of a rank as a value
                found.add(node.rank)
        return frozenset(found)

    def to_sympy(self, expression: Expression, value: Callable[[Access], sp.Expr]) -> sp.Expr:
        """Return ``expression`` as algebra; ``value`` gives what stands for each access.

        Functions without algebra of their own here stay opaque, so no rule can look into them.
        """
        if isinstance(expression, Access):
            return value(expression)
        if isinstance(expression, Number):
            if not math.isfinite(expression.value):
                return self.symbol(expression)
            return sp.Rational(repr(expression.value)) if expression.value % 1 else sp.Integer(int(expression.value))
        if not isinstance(expression, Operation):
            return self.symbol(expression)
        operands = [self.to_sympy(operand, value) for operand in expression.operands]
        known = _MAKE.get(expression.operator)
        return known(*operands) if known else sp.Function(expression.operator, real=True)(*operands)

    def to_expression(self, expression: sp.Expr, value: Callable[[sp.Symbol], Expression] | None = None) -> Expression:
        """Return algebra as an expression of the notation; ``value`` gives what stands for each symbol."""
        return _Writer(self, value or (lambda symbol: self.meaning[symbol])).write(expression)

    def text(self, expression: sp.Expr) -> str:
        """Return algebra in the notation, for messages and steps."""
        return str(self.to_expression(expression))

    def order(self, expression: sp.Expr) -> tuple[int, str]:
        """Return a sort key: by the symbol that was met first."""
        return min((self._order.get(each, 0) for each in expression.free_symbols), default=-1), str(expression)


_MAKE: Mapping[str, Callable[..., sp.Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "negate": lambda a: -a,
    "exp": sp.exp,
    "log": sp.log,
    "sqrt": sp.sqrt,
    "max": sp.Max,
    "min": sp.Min,
    "abs": sp.Abs,
    "relu": lambda a: sp.Max(a, 0),
    "rsqrt": lambda a: 1 / sp.sqrt(a),
    "log1p": lambda a: sp.log(1 + a),
    "pow": lambda a, b: sp.Pow(a, b) if a.is_positive or b.is_Integer else sp.Function("pow", real=True)(a, b),
}


class _Writer:
    """Writes algebra in the notation: positive terms first, factors over divisors, roots and powers spelled out."""

    def __init__(self, algebra: Algebra, value: Callable[[sp.Symbol], Expression]) -> None:
        self.algebra = algebra
        self.value = value

    def write(self, expression: sp.Expr) -> Expression:
        """Return ``expression`` in the notation."""
        if isinstance(expression, sp.Symbol):
            return self.value(expression)
        if expression.is_Number:
            return Number(value=float(expression))
        if expression.is_Add:
            return self.sum(expression)
        if expression.is_Mul or expression.is_Pow:
            return self.product(expression)
        if isinstance(expression, sp.Abs):
            inner = self.write(expression.args[0])
            if "abs" in FUNCTIONS:
                return Operation(operator="abs", operands=(inner,))
            return Operation(operator="max", operands=(inner, self.write(-expression.args[0])))
        if isinstance(expression, sp.exp):
            return Operation(operator="exp", operands=(self.write(expression.args[0]),))
        if expression == sp.E:
            return Operation(operator="exp", operands=(Number(value=1.0),))
        name = {"Max": "max", "Min": "min"}.get(type(expression).__name__, type(expression).__name__)
        operands = [self.write(each) for each in sorted(expression.args, key=self._constants_last)]
        if name in ("max", "min"):
            return self.chain(name, operands)
        return Operation(operator=name, operands=tuple(self.write(each) for each in expression.args))

    def _constants_last(self, expression: sp.Expr) -> tuple[bool, tuple[int, str]]:
        return not expression.free_symbols, self.algebra.order(expression)

    def chain(self, operator: str, operands: Iterable[Expression]) -> Expression:
        """Return the operands joined from left to right."""
        first, *rest = operands
        for each in rest:
            first = Operation(operator=operator, operands=(first, each))
        return first

    def sum(self, expression: sp.Expr) -> Expression:
        """Return a sum, its negative terms subtracted."""
        terms = sorted(expression.args, key=self._constants_last)
        negative = [term for term in terms if term.could_extract_minus_sign()]
        positive = [term for term in terms if term not in negative]
        if not positive:
            return Operation(operator="negate", operands=(self.sum(-expression),))
        result = self.chain("add", [self.write(term) for term in positive])
        for term in negative:
            result = Operation(operator="subtract", operands=(result, self.write(-term)))
        return result

    def product(self, expression: sp.Expr) -> Expression:
        """Return a product or a power as factors over divisors."""
        coefficient, rest = expression.as_coeff_Mul()
        sign = coefficient < 0
        above: list[Expression] = []
        below: list[Expression] = []
        for factor in sorted(sp.Mul.make_args(rest), key=self.algebra.order):
            base, power = factor.as_base_exp() if factor.is_Pow else (factor, sp.Integer(1))
            self._power(base, power, below if power.is_negative else above)
        numerator, denominator = abs(coefficient).as_numer_denom()
        if 1 < denominator <= _SMALL and numerator == 1 and above:
            below.append(Number(value=float(denominator)))
        elif abs(coefficient) != 1 or not above:
            above.insert(0, Number(value=float(abs(coefficient))))
        if sign:
            first = above[0]
            negative = Operation(operator="negate", operands=(first,))
            above[0] = Number(value=-first.value) if isinstance(first, Number) else negative
        result = self.chain("multiply", above)
        for divisor in below:
            result = Operation(operator="divide", operands=(result, divisor))
        return result

    def _power(self, base: sp.Expr, power: sp.Expr, into: list[Expression]) -> None:
        if not power.is_number:
            into.append(Operation(operator="pow", operands=(self.write(base), self.write(power))))
            return
        size = abs(power)
        if size.is_Integer and size <= 8:
            into.extend([self.write(base)] * int(size))
        elif (2 * size).is_Integer and size <= 8:
            into.extend([self.write(base)] * int(size - sp.Rational(1, 2)))
            into.append(Operation(operator="sqrt", operands=(self.write(base),)))
        else:
            inner = self.write(size * sp.log(base))
            into.append(Operation(operator="exp", operands=(inner,)))


@dataclass(frozen=True, kw_only=True)
class Part:
    """One term of a separated expression: ``outside`` is free of elements, ``inside`` is what is reduced."""

    outside: sp.Expr
    inside: sp.Expr


def parts(expression: sp.Expr, moves: Callable[[sp.Expr], bool]) -> list[Part]:
    """Write ``expression`` as a sum of ``outside * inside`` with as few different ``inside`` as possible.

    ``moves`` tells of a factor whether it may stand outside of the reduction. This is distributivity and nothing else:
    functions are kept whole.
    """
    found: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(_expanded(expression, moves)):
        outside, inside = sp.Integer(1), sp.Integer(1)
        for factor in sp.Mul.make_args(term):
            if moves(factor):
                outside *= factor
            else:
                inside *= factor
        found[inside] = found.get(inside, sp.Integer(0)) + outside
    return [Part(outside=outside, inside=inside) for inside, outside in found.items() if outside != 0]


def _expanded(expression: sp.Expr, moves: Callable[[sp.Expr], bool]) -> sp.Expr:
    """Multiply out every product of sums that hold both what moves and what does not."""
    if expression.is_Add:
        return sp.Add(*(_expanded(term, moves) for term in expression.args))
    if moves(expression):
        return expression
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 1 and expression.base.is_Add:
        return _expanded(sp.expand(expression), moves) if _mixed(expression.base, moves) else expression
    if expression.is_Mul:
        factors = [_expanded(factor, moves) for factor in expression.args]
        sums = [factor for factor in factors if factor.is_Add and _mixed(factor, moves)]
        if sums:
            rest = sp.Mul(*(factor for factor in factors if factor not in sums))
            product = sp.Integer(1)
            for each in sums:
                product = sp.expand_mul(product * each)
            return sp.Add(*(_expanded(term * rest, moves) for term in sp.Add.make_args(product)))
        return sp.Mul(*factors)
    return expression


def _mixed(total: sp.Expr, moves: Callable[[sp.Expr], bool]) -> bool:
    """Whether a sum has terms of which a factor moves beside other terms; splitting it then separates something."""
    outsides = set()
    for term in sp.Add.make_args(total):
        outsides.add(sp.Mul(*(factor for factor in sp.Mul.make_args(term) if moves(factor) and factor.free_symbols)))
    return len(outsides) > 1


def common_scale(expression: sp.Expr, moves: Callable[[sp.Expr], bool]) -> tuple[sp.Expr, sp.Expr] | None:
    """Write ``expression`` as ``scale * rest`` with ``rest`` free of what moves; None where that is not possible.

    ``max``, ``min`` and absolute values let a positive factor through that all of their operands share.
    """
    if expression == 0 or moves(expression):
        return expression, sp.Integer(1)
    if not any(moves(symbol) for symbol in expression.free_symbols):
        return sp.Integer(1), expression
    if isinstance(expression, sp.exp) or (expression.is_Pow and expression.base.is_number):
        base, exponent = expression.as_base_exp()
        terms = sp.Add.make_args(sp.expand(exponent))
        apart = [term for term in terms if moves(term)]
        rest = sp.Add(*(term for term in terms if term not in apart))
        if any(moves(symbol) for symbol in rest.free_symbols):
            return None
        return base ** sp.Add(*apart), base**rest
    if expression.is_Mul:
        found = [common_scale(factor, moves) for factor in expression.args]
        if any(each is None for each in found):
            return None
        pairs = [each for each in found if each is not None]
        return sp.Mul(*(scale for scale, _ in pairs)), sp.Mul(*(rest for _, rest in pairs))
    if expression.is_Pow and not any(moves(symbol) for symbol in expression.exp.free_symbols):
        inner = common_scale(expression.base, moves)
        if inner is None or not (expression.exp.is_Integer or inner[0].is_positive):
            return None
        return inner[0] ** expression.exp, inner[1] ** expression.exp
    if isinstance(expression, sp.Max | sp.Min | sp.Abs) or expression.is_Add:
        return _shared_scale(expression, moves)
    return None


def _shared_scale(expression: sp.Expr, moves: Callable[[sp.Expr], bool]) -> tuple[sp.Expr, sp.Expr] | None:
    operands = [_scale_of(each, moves) for each in expression.args if each != 0]
    if any(each is None for each in operands):
        return None
    pairs = [each for each in operands if each is not None]
    scale = pairs[0][0].as_coeff_Mul()[1]
    ratios = [sp.simplify(other / scale) for other, _ in pairs]
    # Ratios that are numbers stay inside: 2*g and g share g.
    if any(ratio.free_symbols for ratio in ratios) or not (expression.is_Add or scale.is_positive):
        return None
    rest = [ratio * inside for ratio, (_, inside) in zip(ratios, pairs, strict=True)]
    if len(rest) < len(expression.args):
        rest.append(sp.Integer(0))
    return scale, expression.func(*rest)


def _scale_of(expression: sp.Expr, moves: Callable[[sp.Expr], bool]) -> tuple[sp.Expr, sp.Expr] | None:
    """Return the common scale of one operand; a constant has the scale 1."""
    if moves(expression) and expression.free_symbols:
        return expression, sp.Integer(1)
    if not expression.free_symbols:
        return sp.Integer(1), expression
    return common_scale(expression, moves)
