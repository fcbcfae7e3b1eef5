"""Reads the cascade notation; every message names file, line and column and shows the line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, TypeGuard

from lark import Lark, Token, Transformer, Tree, UnexpectedToken, v_args
from lark.tree import Meta

from accel.cascade import Cascade, Einsum, Reduction, Tensor
from accel.errors import InputError, Place, Problem, did_you_mean
from accel.expression import (
    FUNCTIONS,
    Access,
    Condition,
    Expression,
    Index,
    Number,
    Operation,
    SizeValue,
    Term,
)
from accel.spec import read_text

__all__ = ["parse", "parse_file"]


def parse_file(path: Path) -> Cascade:
    """Return the cascade in the file at ``path``.

    Raises
    ------
    InputError
        The file cannot be read, or its text breaks the notation.
    """
    return parse(read_text(path), file=str(path))


def parse(text: str, *, file: str = "cascade") -> Cascade:
    """Return the cascade that ``text`` describes.

    Parameters
    ----------
    text : str
        One cascade in the notation (docs/notation.md).
    file : str
        Name used in messages.

    Raises
    ------
    InputError
        The text breaks the notation; each problem carries its place and the line with a caret.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    try:
        tree = _parser().parse(text + "\n")
        return _Builder(file, lines).build(tree)
    except UnexpectedToken as error:
        problems: Iterable[Problem] = [_syntax_problem(error, file, lines)]
    except InputError as error:
        problems = error.problems
    raise InputError.of(_with_excerpt(problem, lines) for problem in problems)


class _Newlines:
    """Drops line ends inside brackets, so that a long Einsum may run over several lines."""

    always_accept: ClassVar[tuple[str, ...]] = ("END", "UNKNOWN")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Yield the tokens that the grammar sees."""
        depth = 0
        for token in stream:
            if token in ("(", "["):
                depth += 1
            elif token in (")", "]"):
                depth -= 1
            if token.type != "END" or depth <= 0:
                yield token


@cache
def _parser() -> Lark:
    grammar = (files("accel") / "notation.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", postlex=_Newlines(), propagate_positions=True, maybe_placeholders=False)


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
                    self._refuse(token, f"an index must be made of whole numbers, not {token}", "write a whole number")
                factor *= int(float(token))
            elif token == token.upper():
                symbols.append(str(token))
            elif rank is not None:
                message = f"an index must be linear in its ranks, but multiplies {rank} by {token}"
                self._refuse(token, message, "keep one of the two")
            else:
                rank = str(token)
        return Term(factor=factor, symbols=tuple(sorted(symbols)), rank=rank)

    def _refuse(self, token: Token, message: str, hint: str) -> None:
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

    def call(self, meta: Meta, children: list[Any]) -> Operation:
        """A function of its operands."""
        name, *operands = children
        if name not in FUNCTIONS:
            self._refuse(name, f"unknown function {name}", did_you_mean(name, FUNCTIONS))
        elif len(operands) != FUNCTIONS[name]:
            number = FUNCTIONS[name]
            noun = "operand" if number == 1 else "operands"
            self._refuse(name, f"{name} must have {number} {noun}, not {len(operands)}", f"give it {number}")
        return Operation(operator=str(name), operands=tuple(operands))

    def condition(self, meta: Meta, children: list[Any]) -> Condition:
        """A comparison of two indices."""
        left, comparison, right = children
        return Condition(left=left, comparison=str(comparison), right=right)


class _Builder:
    """Puts the statements of one cascade together."""

    def __init__(self, file: str, lines: Sequence[str]) -> None:
        self.nodes = _Nodes(file)
        self.lines = lines
        self.tensors: set[str] = set()

    def build(self, tree: Tree[Any]) -> Cascade:
        """Return the cascade of a whole parse tree."""
        parts: list[Any] = _without_ends(self.nodes.transform(tree))
        heading, statements = parts[0], parts[1:]
        if self.nodes.problems:
            raise InputError.of(sorted(self.nodes.problems, key=_position))
        inputs = tuple(tensor for each in statements if each.data == "inputs" for tensor in _without_ends(each))
        outputs = [name for each in statements if each.data == "outputs" for name in _without_ends(each)]
        einsums = [each for each in statements if each.data == "einsum"]
        self.tensors = {tensor.name for tensor in inputs} | {each.children[0].tensor for each in einsums}
        name = heading.children[0]
        try:
            return Cascade(
                name=str(name),
                inputs=inputs,
                einsums=tuple(map(self._einsum, einsums)),
                outputs=tuple(map(str, outputs)),
                description=self._description(name.line),
            )
        except InputError as error:
            # What has no place of its own is an output, or the cascade as a whole.
            places: dict[tuple[str | int, ...], Place] = {
                ("outputs", number): self.nodes.place(token) for number, token in enumerate(outputs)
            }
            whole = self.nodes.place(name)
            raise InputError.of(
                replace(problem, place=problem.place or places.get(problem.field, whole)) for problem in error.problems
            ) from None

    def _description(self, heading_line: int) -> str:
        ahead = [line.strip() for line in self.lines[: heading_line - 1]]
        return "\n".join(line[1:].removeprefix(" ") for line in ahead if line.startswith("#"))

    def _einsum(self, statement: Tree[Any]) -> Einsum:
        output, expression, *rest = _without_ends(statement)
        named = next((each for each in rest if each.data == "reduction"), None)
        filters = next((each for each in rest if each.data == "filter"), None)
        last_line = next(child.line or 1 for child in statement.children if _is_end(child))
        plain = Einsum(
            output=output,
            expression=self._resolve(expression),
            conditions=tuple(filters.children) if filters is not None else (),
            comment=self.lines[last_line - 1].partition("#")[2].strip(),
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

    def _resolve(self, expression: Expression) -> Expression:
        """Return ``expression`` with bare names that are no tensors read as sizes."""
        if isinstance(expression, Operation):
            return replace(expression, operands=tuple(map(self._resolve, expression.operands)))
        if isinstance(expression, Access) and not expression.indices and expression.tensor not in self.tensors:
            return SizeValue(symbol=expression.tensor, place=expression.place)
        return expression


def _position(problem: Problem) -> tuple[int, int]:
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)


def _is_end(child: Any) -> TypeGuard[Token]:
    return isinstance(child, Token) and child.type == "END"


def _without_ends(tree: Tree[Any]) -> list[Any]:
    return [child for child in tree.children if not _is_end(child)]


_WORDS = {
    "$END": "the end of the text",
    "AND": "'and'",
    "CASCADE": "'cascade NAME'",
    "COMMA": "','",
    "COMPARISON": "a comparison (<=, <, >=, >, ==, !=)",
    "END": "the end of the line",
    "EQUAL": "'='",
    "LPAR": "'('",
    "LSQB": "'['",
    "MINUS": "'-'",
    "NAME": "a name",
    "NAME_OF_CASCADE": "the name of the cascade",
    "NUMBER": "a number",
    "PLUS": "'+'",
    "RPAR": "')'",
    "RSQB": "']'",
    "STAR": "'*'",
    "WHERE": "'where'",
    "_REDUCE": "'::'",
}
_WORDS_OF_GROUPS = (
    ({"CASCADE", "END"}, "'cascade NAME' ahead of all else"),
    ({"NAME", "NUMBER", "LPAR", "INF", "MINUS"}, "a tensor, a number, a function or '('"),
    ({"NAME", "INPUT", "OUTPUT", "END", "$END"}, "an Einsum, 'input' or 'output'"),
    ({"NAME", "INPUT", "OUTPUT"}, "an Einsum, 'input' or 'output'"),
    ({"PLUS", "MINUS", "STAR", "SLASH"}, "an operator (+, -, *, /)"),
)


def _expected(terminals: Iterable[str]) -> str:
    """Return in words what the grammar allows at one point."""
    names = set(terminals) - {"UNKNOWN"}
    words = []
    for group, word in _WORDS_OF_GROUPS:
        if group <= names:
            words.append(word)
            names -= group
    words.extend(_WORDS[name] for name in sorted(names))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _syntax_problem(error: UnexpectedToken, file: str, lines: Sequence[str]) -> Problem:
    token, expected = error.token, error.accepts or error.expected
    given = _WORDS[token.type] if token.type in ("END", "$END") else repr(str(token))
    place = Place(file=file, line=token.line or 1, column=token.column or 1)
    # Inside brackets a statement runs on over the end of its line, so the fault stands ahead of the place found.
    runs_on = token.type == "$END" or not lines[place.line - 1][: place.column - 1].strip()
    return Problem(
        message=f"expected {_expected(expected)}, not {given}",
        hint="close the bracket on the line before" if runs_on and {"RPAR", "RSQB"} & expected else None,
        place=place,
    )


def _with_excerpt(problem: Problem, lines: Sequence[str]) -> Problem:
    if problem.place is None or problem.excerpt is not None or not 1 <= problem.place.line <= len(lines):
        return problem
    return replace(problem, excerpt=_excerpt(lines[problem.place.line - 1], problem.place))


def _excerpt(line: str, place: Place) -> str:
    number = str(place.line)
    # Tabs are kept ahead of the caret so that it stands below its column whatever their width.
    lead = re.sub(r"[^\t]", " ", line[: place.column - 1]).ljust(place.column - 1)
    return f"  {number} | {line.rstrip()}\n  {' ' * len(number)} | {lead}^"
