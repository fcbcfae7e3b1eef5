"""Turns the parse tree of the notation into cascades: names resolved, definitions and used cascades put in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeGuard

from lark import Token, Transformer, Tree, v_args
from lark.tree import Meta

from accel.cascade import Cascade, Einsum, Parameter, Reduction, Tensor, cascade_names, load_cascade
from accel.errors import InputError, Place, Problem, did_you_mean
from accel.expression import (
    COMPARISON_OPERATORS,
    FUNCTIONS,
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
)
from accel.inline import Renaming

__all__ = ["Builder"]

_MOST_NODES = 5_000
"""Definitions that call each other twice grow without bound; no cascade comes near this."""


@dataclass(frozen=True)
class _Call:
    """A call as written: of a function, or of a definition."""

    name: Token
    operands: tuple[Any, ...]


@dataclass(frozen=True)
class _Definition:
    """A user-defined compute: what its name stands for, with names of operands still open."""

    operands: tuple[str, ...]
    body: Any


@v_args(meta=True)
class _Nodes(Transformer[Token, Any]):
    """Turns the parse tree into the nodes of ``accel.expression``."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file
        self.problems: list[Problem] = []

    def place(self, where: Meta | Token) -> Place:
        """Return the place of a token or a rule."""
        return Place(file=self.file, line=where.line or 1, column=where.column or 1)

    def tensor(self, meta: Meta, children: list[Token]) -> Tensor:
        """A declared tensor."""
        name, *ranks = map(str, children)
        return Tensor(name=name, ranks=tuple(ranks), place=self.place(meta))

    def first_term(self, meta: Meta, children: list[Token]) -> Term:
        """The first term of an index, perhaps negative."""
        return self._term(children)

    def plus_term(self, meta: Meta, children: list[Token]) -> Term:
        """A term that is added."""
        return self._term(children)

    def minus_term(self, meta: Meta, children: list[Token]) -> Term:
        """A term that is subtracted."""
        return self._term(children)

    def _term(self, children: Sequence[Token]) -> Term:
        factor, symbols, rank = 1, [], None
        for token in children:
            if token.type == "MINUS":
                factor = -factor
            elif token.type == "NUMBER":
                if not token.isdecimal():
                    self.refuse(token, f"an index must be made of whole numbers, not {token}", "write a whole number")
                factor *= int(float(token))
            elif token == token.upper():
                symbols.append(str(token))
            elif rank is not None:
                message = f"an index must be linear in its ranks, but multiplies {rank} by {token}"
                self.refuse(token, message, "keep one of the two")
            else:
                rank = str(token)
        return Term(factor=factor, symbols=tuple(sorted(symbols)), rank=rank)

    def refuse(self, token: Token, message: str, hint: str) -> None:
        """Note a problem at ``token``."""
        self.problems.append(Problem(message=message, hint=hint, place=self.place(token)))

    def index(self, meta: Meta, terms: list[Term]) -> Index:
        """An affine index, equal terms added up: ranks first, then sizes, then the constant."""
        factors: dict[tuple[str | None, tuple[str, ...]], int] = {}
        for term in terms:
            key = (term.rank, term.symbols)
            factors[key] = factors.get(key, 0) + term.factor
        order = sorted(factors, key=lambda key: 0 if key[0] else 1 if key[1] else 2)
        kept = tuple(Term(factor=factors[key], symbols=key[1], rank=key[0]) for key in order if factors[key])
        return Index(terms=kept, place=self.place(meta))

    def access(self, meta: Meta, children: list[Any]) -> Access:
        """A tensor with its indices."""
        name, *indices = children
        return Access(tensor=str(name), indices=tuple(indices), place=self.place(meta))

    def number(self, meta: Meta, children: list[Token]) -> Number:
        """A literal."""
        return Number(value=float(children[0]))

    def infinity(self, meta: Meta, children: list[Token]) -> Number:
        """The literal inf."""
        return Number(value=float("inf"))

    def negate(self, meta: Meta, children: list[Any]) -> Expression:
        """A negation, or a negative literal."""
        operand = children[-1]
        if isinstance(operand, Number):
            return Number(value=-operand.value)
        return Operation(operator="negate", operands=(operand,))

    def add(self, meta: Meta, children: list[Any]) -> Operation:
        """A sum."""
        return Operation(operator="add", operands=tuple(children))

    def subtract(self, meta: Meta, children: list[Any]) -> Operation:
        """A difference."""
        return Operation(operator="subtract", operands=(children[0], children[-1]))

    def multiply(self, meta: Meta, children: list[Any]) -> Operation:
        """A product."""
        return Operation(operator="multiply", operands=tuple(children))

    def divide(self, meta: Meta, children: list[Any]) -> Operation:
        """A quotient."""
        return Operation(operator="divide", operands=tuple(children))

    def call(self, meta: Meta, children: list[Any]) -> _Call:
        """A function of its operands; which one is known once the definitions are."""
        return _Call(name=children[0], operands=tuple(children[1:]))

    def comparison(self, meta: Meta, children: list[Any]) -> Operation:
        """A comparison as a value."""
        operator = next(name for name, sign in COMPARISON_OPERATORS.items() if sign == str(children[1]))
        return Operation(operator=operator, operands=(children[0], children[2]))

    def negative(self, meta: Meta, children: list[Any]) -> Number:
        """A negative literal."""
        return Number(value=-children[-1].value)

    def parameter(self, meta: Meta, children: list[Any]) -> Parameter:
        """A declared parameter."""
        return Parameter(name=str(children[0]), default=children[1].value, place=self.place(meta))

    def condition(self, meta: Meta, children: list[Any]) -> Condition:
        """A comparison of two indices."""
        left, comparison, right = children
        return Condition(left=left, comparison=str(comparison), right=right)


class Builder:
    """Puts the statements of a text together.

    Parameters
    ----------
    file : str
        Name used in messages.
    lines : sequence of str
        The text, for comments.
    """

    def __init__(self, file: str, lines: Sequence[str]) -> None:
        self.nodes = _Nodes(file)
        self.lines = lines
        self.definitions: dict[str, _Definition] = {}
        self.cascades: dict[str, Cascade] = {}

    def build(self, tree: Tree[Any]) -> tuple[Cascade, ...]:
        """Return the cascades of a whole parse tree.

        Raises
        ------
        InputError
            A rule of the notation is broken.
        """
        for each in _without_ends(self.nodes.transform(tree)):
            heading, *statements = _without_ends(each)
            name = heading.children[0]
            if name in self.cascades:
                self.nodes.refuse(name, f"cascade {name} must stand once in a file", "give the second one another name")
            cascade = _OneCascade(self, name, statements).build()
            self.cascades[cascade.name] = cascade
        return tuple(self.cascades.values())

    def description(self, heading_line: int) -> str:
        """Return the comment ahead of a heading."""
        first = heading_line - 1
        while first and (not self.lines[first - 1].strip() or self.lines[first - 1].strip().startswith("#")):
            first -= 1
        ahead = [line.strip() for line in self.lines[first : heading_line - 1]]
        return "\n".join(line[1:].removeprefix(" ") for line in ahead if line)

    def comment(self, statement: Tree[Any]) -> str:
        """Return the comment behind the last line of a statement."""
        last_line = next(child.line or 1 for child in statement.children if _is_end(child))
        return self.lines[last_line - 1].partition("#")[2].strip()


class _OneCascade:
    """Puts the statements of one cascade together."""

    def __init__(self, builder: Builder, name: Token, statements: list[Any]) -> None:
        self.builder = builder
        self.nodes = builder.nodes
        self.name = name
        self.statements = statements
        self.inputs = tuple(each for one in self._all("inputs") for each in _without_ends(one))
        self.parameters: list[Parameter] = [each for one in self._all("parameters") for each in _without_ends(one)]
        self.einsums: list[Einsum] = []
        self.known_sizes: dict[int, tuple[Expression, int]] = {}
        einsums = self._all("einsum")
        given = [str(name) for each in self._all("use") for name in _names_given(each)]
        self.tensors = (
            {tensor.name for tensor in self.inputs} | {each.children[0].tensor for each in einsums} | {*given}
        )
        self.ranks = {rank for tensor in self.inputs for rank in tensor.ranks}
        for each in einsums:
            self.ranks.update(each.children[0].ranks)
            self.ranks.update(rank for access in _raw_accesses(each.children[1]) for rank in access.ranks)

    def _all(self, kind: str) -> list[Any]:
        return [each for each in self.statements if each.data == kind]

    def build(self) -> Cascade:
        """Return the cascade."""
        for statement in self.statements:
            if statement.data == "definition":
                self._define(statement)
            elif statement.data == "use":
                self.einsums.extend(self._used(statement))
            elif statement.data == "einsum":
                self.einsums.append(self._einsum(statement))
        if self.nodes.problems:
            raise InputError.of(sorted(self.nodes.problems, key=_position))
        outputs = [name for each in self._all("outputs") for name in _without_ends(each)]
        try:
            return Cascade(
                name=str(self.name),
                inputs=self.inputs,
                einsums=tuple(self.einsums),
                outputs=tuple(map(str, outputs)),
                description=self.builder.description(self.name.line or 1),
                parameters=tuple(self.parameters),
            )
        except InputError as error:
            # What has no place of its own is an output, or the cascade as a whole.
            places: dict[tuple[str | int, ...], Place] = {
                ("outputs", number): self.nodes.place(token) for number, token in enumerate(outputs)
            }
            whole = self.nodes.place(self.name)
            raise InputError.of(
                replace(problem, place=problem.place or places.get(problem.field, whole)) for problem in error.problems
            ) from None

    def _einsum(self, statement: Tree[Any]) -> Einsum:
        output, expression, *rest = _without_ends(statement)
        named = next((each for each in rest if each.data == "reduction"), None)
        filters = next((each for each in rest if each.data == "filter"), None)
        plain = Einsum(
            output=output,
            expression=self._resolve(expression, {}),
            conditions=tuple(filters.children) if filters is not None else (),
            comment=self.builder.comment(statement),
            place=output.place,
        )
        inner = tuple(rank for rank in plain.ranks if rank not in output.ranks)
        if named is None:
            return replace(plain, reduction=Reduction(operator="add", ranks=inner)) if inner else plain
        operator, *ranks = map(str, named.children)
        # The order of reduced ranks means nothing; one order makes equal cascades compare equal.
        ordered = inner if sorted(inner) == sorted(ranks) else tuple(ranks)
        place = self.nodes.place(named.children[0])
        return replace(plain, reduction=Reduction(operator=operator, ranks=ordered, place=place))

    def _define(self, statement: Tree[Any]) -> None:
        name, *operands, body = _without_ends(statement)
        known = self.builder.definitions
        if name in FUNCTIONS or name in known:
            self.nodes.refuse(name, f"{name} is defined already", "use another name")
        for number, operand in enumerate(operands):
            if operand in operands[:number]:
                self.nodes.refuse(operand, f"operand {operand} of {name} must be named once", "use another name")
        for access in _raw_accesses(body):
            if access.indices:
                self.nodes.problems.append(
                    Problem(
                        message=f"a definition must read its operands only, not {access}",
                        hint="make it an operand",
                        place=access.place,
                    )
                )
        # Reading it once finds what is wrong in it even where nothing calls it; a wrong one stands for its operand.
        before = len(self.nodes.problems)
        self._resolve(body, {str(operand): Access(tensor=str(operand)) for operand in operands})
        if len(self.nodes.problems) > before:
            body = Access(tensor=str(operands[0]))
        known.setdefault(str(name), _Definition(operands=tuple(map(str, operands)), body=body))

    def _resolve(self, expression: Any, operands: Mapping[str, Expression]) -> Expression:
        """Return ``expression`` with definitions put in place, and bare names read as what they name.

        ``operands`` stand for names of a definition.
        """
        if isinstance(expression, _Call):
            return self._called(expression, tuple(self._resolve(each, operands) for each in expression.operands))
        if isinstance(expression, Operation):
            values = tuple(self._resolve(each, operands) for each in expression.operands)
            if expression.operator == "negate" and isinstance(values[0], Number):
                return Number(value=-values[0].value)
            return replace(expression, operands=values)
        if not isinstance(expression, Access) or expression.indices:
            known: Expression = expression
            return known
        name, place = expression.tensor, expression.place
        if name in operands:
            return operands[name]
        if name in self.tensors:
            return expression
        if any(parameter.name == name and not parameter.is_size for parameter in self.parameters):
            return ParameterValue(name=name, place=place)
        return RankValue(rank=name, place=place) if name in self.ranks else SizeValue(symbol=name, place=place)

    def _called(self, call: _Call, operands: tuple[Expression, ...]) -> Expression:
        name, definitions = call.name, self.builder.definitions
        if name not in FUNCTIONS and name not in definitions:
            self.nodes.refuse(name, f"unknown function {name}", did_you_mean(name, {*FUNCTIONS, *definitions}))
            return Operation(operator=str(name), operands=operands)
        number = FUNCTIONS[name] if name in FUNCTIONS else len(definitions[name].operands)
        if len(operands) != number:
            noun = "operand" if number == 1 else "operands"
            self.nodes.refuse(name, f"{name} must have {number} {noun}, not {len(operands)}", f"give it {number}")
        elif name in definitions:
            definition = definitions[name]
            value = self._resolve(definition.body, dict(zip(definition.operands, operands, strict=True)))
            if self._size(value) > _MOST_NODES:
                message = (
                    f"an expression must have {_MOST_NODES} parts at most, but {name} makes it {self._size(value)}"
                )
                self._stop(name, message, "give its operands Einsums of their own")
            return value
        return Operation(operator=str(name), operands=operands)

    def _size(self, expression: Expression) -> int:
        """Return the number of nodes; operands put in place twice are one object, which is counted once and for all."""
        if not isinstance(expression, Operation):
            return 1
        known = self.known_sizes.get(id(expression))
        if known is None:
            known = expression, 1 + sum(map(self._size, expression.operands))
            self.known_sizes[id(expression)] = known
        return known[1]

    def _used(self, statement: Tree[Any]) -> tuple[Einsum, ...]:
        """Return the Einsums of a used cascade under the names that they have here."""
        token, *rest = _without_ends(statement)
        bindings: list[tuple[Any, Any]] = [
            (each.children[0], each.children[1]) for each in rest if isinstance(each, Tree)
        ]
        given = [str(each) for each in rest if isinstance(each, Token)]
        place = self.nodes.place(token)
        used = self._find(token)
        if used is None:
            return ()
        if len(given) != len(used.outputs):
            self._stop(
                token,
                f"{used.name} gives {', '.join(used.outputs)}: name each of them once",
                "write giving " + ", ".join(used.outputs),
            )
        tensors, ranks, symbols, values = self._bound(used, bindings, token)
        outputs = dict(zip(used.outputs, given, strict=True))
        for name in used.tensors:
            tensors.setdefault(name, outputs.get(name, f"{given[0]}_{name}"))
        renaming = Renaming(tensors=tensors, ranks=ranks, symbols=symbols, parameters=values)
        here = {each.name for each in self.parameters}
        for parameter in used.parameters:
            name = renaming.symbol(parameter.name) if parameter.is_size else parameter.name
            if name not in here and parameter.name not in values and not (parameter.is_size and name != parameter.name):
                self.parameters.append(replace(parameter, place=place))
        einsums = renaming.einsums(used, place)
        self.tensors.update(each.name for each in einsums)
        return einsums

    def _find(self, token: Token) -> Cascade | None:
        """Return the cascade to use: an earlier one of the text, or a packaged one."""
        name, earlier = str(token), self.builder.cascades
        if name in earlier:
            return earlier[name]
        packaged = set(cascade_names()) - {str(self.name)}
        if name in packaged:
            return load_cascade(name)
        self.nodes.refuse(
            token, f"no cascade ahead of this one is named {name}", did_you_mean(name, {*earlier, *packaged})
        )
        return None

    def _bound(
        self, used: Cascade, bindings: list[tuple[Any, Any]], token: Token
    ) -> tuple[dict[str, str], dict[str, str], dict[str, str], dict[str, Expression]]:
        """Return what the bindings say: new names of inputs, ranks and sizes, and values of parameters."""
        inputs = {tensor.name: tensor for tensor in used.inputs}
        reals = {each.name for each in used.parameters if not each.is_size}
        tensors: dict[str, str] = {}
        ranks: dict[str, str] = {}
        symbols: dict[str, str] = {}
        values: dict[str, Expression] = {}
        for name, value in bindings:
            key = str(name)
            if key in inputs and isinstance(value, Token):
                tensors[key] = str(value)
                self._same_ranks(used, inputs[key], value, ranks)
            elif key in reals:
                values[key] = self._parameter(value)
            elif key in used.ranks and isinstance(value, Token):
                self._rank(used, key, str(value), ranks, value)
            elif key in used.symbols and isinstance(value, Token):
                symbols[key] = str(value)
            else:
                known = {*inputs, *reals, *used.ranks, *used.symbols}
                if key in known:
                    self._stop(
                        name, f"{key} of {used.name} must be bound to a name, not to {value}", f"write {key} = NAME"
                    )
                self._stop(name, f"{used.name} has nothing named {key} to bind", did_you_mean(key, known))
        for key in inputs:
            if key not in tensors:
                self._stop(token, f"input {inputs[key]} of {used.name} is missing", f"write {key} = TENSOR")
        final = [ranks.get(rank, rank) for rank in used.ranks]
        for rank in sorted(used.ranks, key=lambda rank: rank in ranks):
            if final.count(ranks.get(rank, rank)) > 1:
                message = f"two ranks of {used.name} become {ranks.get(rank, rank)!r}"
                self._stop(token, message, f"rename one of them: {rank} = NAME")
        return tensors, ranks, symbols, values

    def _same_ranks(self, used: Cascade, tensor: Tensor, value: Token, ranks: dict[str, str]) -> None:
        """Let the ranks of an input stand for those of the tensor given, one by one."""
        known = {each.name: each.ranks for each in self.inputs}
        known.update((each.name, each.output.ranks) for each in self.einsums)
        if str(value) not in known:
            self._stop(value, f"{value} is no tensor ahead of this line", did_you_mean(str(value), known))
        actual = known[str(value)]
        if len(actual) != len(tensor.ranks):
            self._stop(
                value,
                f"{value} must have {len(tensor.ranks)} ranks as {tensor} of {used.name}, not {len(actual)}",
                "give another tensor",
            )
        for old, new in zip(tensor.ranks, actual, strict=True):
            self._rank(used, old, new, ranks, value)

    def _rank(self, used: Cascade, old: str, new: str, ranks: dict[str, str], where: Token) -> None:
        if ranks.setdefault(old, new) != new:
            self._stop(
                where, f"rank {old!r} of {used.name} must be one rank, not {ranks[old]!r} and {new!r}", "rename one"
            )

    def _parameter(self, value: Any) -> Expression:
        if isinstance(value, Number):
            return value
        return self._resolve(Access(tensor=str(value), place=self.nodes.place(value)), {})

    def _stop(self, token: Token, message: str, hint: str) -> NoReturn:
        self.nodes.refuse(token, message, hint)
        raise InputError.of(sorted(self.nodes.problems, key=_position))


def _names_given(use: Tree[Any]) -> list[Token]:
    return [each for each in _without_ends(use)[1:] if isinstance(each, Token)]


def _raw_accesses(expression: Any) -> list[Access]:
    if isinstance(expression, _Call | Operation):
        return [access for each in expression.operands for access in _raw_accesses(each)]
    return [expression] if isinstance(expression, Access) else []


def _position(problem: Problem) -> tuple[int, int]:
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)


def _is_end(child: Any) -> TypeGuard[Token]:
    return isinstance(child, Token) and child.type == "END"


def _without_ends(tree: Tree[Any]) -> list[Any]:
    return [child for child in tree.children if not _is_end(child)]
