"""Takes the largest exponent off every exponential that is summed over a rank, where that cancels in all results.

Every tensor gets a degree: by which power of ``exp(G)`` it falls when the row value ``G`` is taken off the exponents.
Products add degrees, quotients subtract them, a logarithm turns degree into a term, and a sum needs equal degrees,
which a constant gets by a factor ``exp(-G)``. Where all results have degree 0 the shift cancels, and nothing else
changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import sympy as sp

from accel.cascade import Cascade, Einsum, Reduction
from accel.expression import (
    Access,
    Condition,
    Expression,
    Index,
    Number,
    Operation,
    accesses,
    expression_ranks,
    nodes,
)
from mapping.derivation.algebra import Algebra
from mapping.derivation.steps import Step

__all__ = ["dependent_on", "fresh_name", "stabilise"]

_ROUNDING = 1e-12


class _DegreesDifferError(Exception):
    """The shift does not cancel."""


def dependent_on(cascade: Cascade, rank: str) -> frozenset[str]:
    """Return the tensors that depend on a reduction over ``rank``."""
    found: set[str] = set()
    changed = True
    while changed:
        changed = False
        for einsum in cascade.einsums:
            reduces = einsum.reduction is not None and rank in einsum.reduction.ranks
            if einsum.name not in found and (reduces or any(read.tensor in found for read in einsum.reads)):
                found.add(einsum.name)
                changed = True
    return frozenset(found)


def fresh_name(wanted: str, taken: Iterable[str]) -> str:
    """Return ``wanted``, with a number behind it where it is taken."""
    names, number, name = set(taken), 2, wanted
    while name in names:
        name, number = f"{wanted}{number}", number + 1
    return name


def stabilise(cascade: Cascade, rank: str) -> tuple[Cascade, tuple[Step, ...]]:
    """Return ``cascade`` with its exponentials shifted by a row maximum where that changes no result, and the steps.

    The shift is a per-row term that cancels (the step from naive to safe softmax).
    """
    late = dependent_on(cascade, rank)
    steps: list[Step] = []
    failed: list[frozenset[Operation]] = []
    for power in _powers(cascade, rank):
        cascade, step = _attempt(cascade, rank, late, frozenset({power}))
        steps.extend([step] if step else [])
        failed.extend([] if step else [frozenset({power})])
    # Sums of several exponentials need one shift for all of them.
    for number in range(2, len(failed) + 1):
        for chosen in itertools.combinations(failed, number):
            cascade, step = _attempt(cascade, rank, late, frozenset().union(*chosen))
            steps.extend([step] if step else [])
    return cascade, tuple(steps)


def _attempt(
    cascade: Cascade, rank: str, late: frozenset[str], powers: frozenset[Operation]
) -> tuple[Cascade, Step | None]:
    """Return the cascade with ``powers`` shifted and the step; the same cascade where that changes a result."""
    if len({_base(power) for power in powers}) > 1:
        return cascade, None
    try:
        return _Shift(cascade=cascade, rank=rank, late=late, powers=powers).apply()
    except _DegreesDifferError:
        return cascade, None


def _base(power: Operation) -> Expression | None:
    """Return the base of a power; None for ``exp``."""
    return power.operands[0] if power.operator == "pow" else None


def _exponent(power: Operation) -> Expression:
    return power.operands[-1]


def _powers(cascade: Cascade, rank: str) -> list[Operation]:
    """Return each power with a constant base whose exponent changes along ``rank``, may be large and is unshifted."""
    settled = _settled(cascade, rank)
    found: dict[Operation, None] = {}
    for einsum in cascade.einsums:
        for node in nodes(einsum.expression):
            if not _is_power(node):
                continue
            assert isinstance(node, Operation)
            reads = accesses(node)
            changes = any(rank in read.ranks for read in reads)
            if changes and not any(read.tensor in settled for read in reads) and not _is_bounded(cascade, node):
                found[node] = None
    return list(found)


def _settled(cascade: Cascade, rank: str) -> frozenset[str]:
    """Return the statistics that a shift may consist of: those that come from an extremum, or from exponentials."""
    late = dependent_on(cascade, rank)
    found: set[str] = set()
    for einsum in cascade.einsums:
        extremum = (
            einsum.reduction is not None and einsum.reduction.operator != "add" and rank in einsum.reduction.ranks
        )
        powers = any(_is_power(node) for node in nodes(einsum.expression))
        if extremum or powers or any(read.tensor in found for read in einsum.reads):
            found.add(einsum.name)
    return late & found


def _is_bounded(cascade: Cascade, power: Operation) -> bool:
    """Whether an exponent is what rounding leaves of a value, and so no larger than a constant."""
    algebra = Algebra()
    written = {each.name: each for each in cascade.einsums if not each.is_initial and each.iterative_rank is None}

    def value(access: Access) -> sp.Expr:
        source = written.get(access.tensor)
        plain = source is not None and source.reduction is None and not source.conditions
        if source is None or not plain or source.output != access:
            return algebra.symbol(access)
        return algebra.to_sympy(source.expression, value)

    exponent = algebra.to_sympy(_exponent(power), value)
    rounded = [node for node in sp.preorder_traversal(exponent) if getattr(node, "name", "") in ("round", "floor")]
    rest = sp.expand(exponent.xreplace({node: node.args[0] for node in rounded}))
    # Constants are written with as many digits as a float has, so what should cancel leaves a rounding error.
    return bool(rounded) and all(abs(term.as_coeff_Mul()[0]) < _ROUNDING for term in sp.Add.make_args(rest))


def _is_power(node: Expression) -> bool:
    if not isinstance(node, Operation) or node.operator not in ("exp", "pow"):
        return False
    base = _base(node)
    return base is None or (isinstance(base, Number) and base.value > 1)


@dataclass(kw_only=True)
class _Shift:
    """One attempt: the exponents that are shifted together, and what the attempt finds out."""

    cascade: Cascade
    rank: str
    late: frozenset[str]
    powers: frozenset[Operation]
    degrees: dict[str, Fraction | None] = field(default_factory=dict)
    bounds: dict[Expression, None] = field(default_factory=dict)
    conditions: list[tuple[Condition, ...]] = field(default_factory=list)
    sums: bool = False

    def __post_init__(self) -> None:
        names = [*self.cascade.tensors, *self.cascade.symbols]
        self.peak = fresh_name("GM", names)
        self.base = _base(next(iter(self.powers)))
        self.row = self._row_ranks()
        self.shift: Expression = Access(tensor=self.peak, indices=tuple(map(Index.of, self.row)))

    def _row_ranks(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for einsum in self.cascade.einsums:
            for node in nodes(einsum.expression):
                if node in self.powers:
                    found.update(dict.fromkeys(rank for read in accesses(node) for rank in read.ranks))
        return tuple(rank for rank in found if rank != self.rank)

    def power(self, exponent: Expression) -> Operation:
        """Return the base of the powers raised to ``exponent``."""
        if self.base is None:
            return Operation(operator="exp", operands=(exponent,))
        return Operation(operator="pow", operands=(self.base, exponent))

    def lowered(self, power: Operation) -> Operation:
        """Return a power with the shift taken off its exponent."""
        return self.power(Operation(operator="subtract", operands=(_exponent(power), self.shift)))

    def apply(self) -> tuple[Cascade, Step | None]:
        """Return the shifted cascade; the same one without a step where nothing is summed."""
        changed: list[Einsum] = []
        for einsum in self.cascade.einsums:
            expression, degree = self.scaled(einsum.expression)
            iterates = einsum.iterative_rank is not None or einsum.is_initial
            if degree and (iterates or einsum.name in self.cascade.outputs):
                raise _DegreesDifferError
            reduces = einsum.reduction is not None and self.rank in einsum.reduction.ranks
            if degree and reduces and einsum.reduction is not None:
                self.sums = self.sums or einsum.reduction.operator == "add"
                self.conditions.append(einsum.conditions)
            self.degrees[einsum.name] = degree
            changed.append(replace(einsum, expression=expression))
        if not self.sums:
            return self.cascade, None
        if set(self.row) & {self.rank} or not self._row_fits(changed):
            raise _DegreesDifferError
        return self._rebuilt(changed)

    def _row_fits(self, changed: Iterable[Einsum]) -> bool:
        return all(
            set(self.row) <= set(einsum.ranks)
            for einsum in changed
            if any(read.tensor == self.peak for read in accesses(einsum.expression))
        )

    def _rebuilt(self, changed: list[Einsum]) -> tuple[Cascade, Step]:
        first = next(
            n for n, each in enumerate(changed) if any(read.tensor == self.peak for read in accesses(each.expression))
        )
        before = [str(each) for each, new in zip(self.cascade.einsums, changed, strict=True) if str(each) != str(new)]
        after = [str(new) for each, new in zip(self.cascade.einsums, changed, strict=True) if str(each) != str(new)]
        peaks = self._peaks(changed[first])
        einsums = [*changed[:first], *peaks, *changed[first:]]
        exponents = ", ".join(sorted(str(_exponent(each)) for each in self.powers))
        results = ", ".join(self.cascade.outputs)
        step = Step(
            rule="shift",
            einsum=changed[first].name,
            before=tuple(before),
            after=(*map(str, peaks), *after),
            condition=f"{exponents} may be of any size; {self.power(self.shift)} cancels: {results} of degree 0 in it",
        )
        return replace(self.cascade, einsums=tuple(einsums)), step

    def _peaks(self, first: Einsum) -> list[Einsum]:
        """Return the Einsums that find the largest exponent of the row."""
        common = set(self.conditions[0]).intersection(*self.conditions) if self.conditions else set()
        where = first.conditions or tuple(each for each in self.conditions[0] if each in common)
        exponents = sorted(map(_exponent, self.powers), key=str)
        largest = exponents[0]
        for each in exponents[1:]:
            largest = Operation(operator="max", operands=(largest, each))
        taken = [*self.cascade.tensors, *self.cascade.symbols, self.peak]
        name = fresh_name(f"{self.peak}X", taken) if self.bounds else self.peak
        output = Access(tensor=name, indices=tuple(map(Index.of, self.row)))
        ranks = Einsum(output=output, expression=largest, conditions=where).ranks
        inner = tuple(rank for rank in ranks if rank not in self.row)
        found = [
            Einsum(
                output=output, expression=largest, conditions=where, reduction=Reduction(operator="max", ranks=inner)
            )
        ]
        if self.bounds:
            bounded: Expression = output
            for bound in self.bounds:
                bounded = Operation(operator="max", operands=(bounded, bound))
            found.append(Einsum(output=replace(output, tensor=self.peak), expression=bounded))
        return found

    def scaled(self, expression: Expression) -> tuple[Expression, Fraction | None]:
        """Return ``expression`` with the shift taken off, and its degree; None where any degree fits, as for zero."""
        if isinstance(expression, Access):
            return expression, self.degrees.get(expression.tensor, Fraction(0))
        if not isinstance(expression, Operation):
            return expression, None if expression == Number(value=0.0) else Fraction(0)
        operator = expression.operator
        if expression in self.powers:
            return self.lowered(expression), Fraction(1)
        pairs = [self.scaled(operand) for operand in expression.operands]
        operands = tuple(operand for operand, _ in pairs)
        degrees = [degree for _, degree in pairs]
        changed = Operation(operator=operator, operands=operands)
        if operator in ("add", "subtract", "max", "min"):
            return self._levelled(changed, degrees)
        known = [degree or Fraction(0) for degree in degrees]
        if operator == "multiply":
            return changed, known[0] + known[1] if None not in degrees else None
        if operator == "divide":
            return changed, known[0] - known[1] if degrees[0] is not None else None
        if operator in ("negate", "abs", "relu"):
            return changed, degrees[0]
        if operator == "sqrt":
            return changed, known[0] / 2
        if operator == "log" and known[0]:
            return self._logarithm(changed, known[0]), Fraction(0)
        if any(known):
            raise _DegreesDifferError
        return changed, Fraction(0)

    def _logarithm(self, logarithm: Expression, degree: Fraction) -> Expression:
        shift = self.shift
        if self.base is not None:
            unit = Operation(operator="log", operands=(self.base,))
            shift = Operation(operator="multiply", operands=(shift, unit))
        if degree != 1:
            shift = Operation(operator="multiply", operands=(Number(value=float(degree)), shift))
        return Operation(operator="add", operands=(logarithm, shift))

    def _levelled(self, operation: Operation, degrees: list[Fraction | None]) -> tuple[Expression, Fraction | None]:
        known = [degree for degree in degrees if degree is not None]
        if not known:
            return operation, None
        top = max(known)
        operands = tuple(
            operand if degree is None or degree == top else self._lifted(operand, top - degree)
            for operand, degree in zip(operation.operands, degrees, strict=True)
        )
        return replace(operation, operands=operands), top

    def _lifted(self, expression: Expression, by: Fraction) -> Expression:
        """Multiply by ``exp(-G)`` what does not shrink with the exponentials: a constant, or a value of the row."""
        if by != 1 or self.rank in expression_ranks(expression):
            raise _DegreesDifferError
        if any(read.tensor in self.degrees for read in accesses(expression)):
            raise _DegreesDifferError
        if isinstance(expression, Operation) and _is_power(expression) and _base(expression) == self.base:
            self.bounds[_exponent(expression)] = None
            return self.lowered(expression)
        self.bounds[Number(value=0.0)] = None
        factor = self.power(Operation(operator="negate", operands=(self.shift,)))
        if expression == Number(value=1.0):
            return factor
        return Operation(operator="multiply", operands=(expression, factor))
