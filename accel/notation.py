"""Reads the cascade notation; every message names file, line and column and shows the line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from lark import Lark, Token, UnexpectedToken

from accel.cascade import Cascade
from accel.errors import InputError, Place, Problem
from accel.notation_builder import Builder
from accel.spec import read_text

__all__ = ["parse", "parse_all", "parse_file"]


def parse_file(path: Path) -> Cascade:
    """Return the last cascade in the file at ``path``.

    Raises
    ------
    InputError
        The file cannot be read, or its text breaks the notation.
    """
    return parse(read_text(path), file=str(path))


def parse(text: str, *, file: str = "cascade") -> Cascade:
    """Return the cascade that ``text`` describes; of several the last, which those ahead of it serve.

    Parameters
    ----------
    text : str
        One or more cascades in the notation (docs/notation.md).
    file : str
        Name used in messages.

    Raises
    ------
    InputError
        The text breaks the notation; each problem carries its place and the line with a caret.
    """
    return parse_all(text, file=file)[-1]


def parse_all(text: str, *, file: str = "cascade") -> tuple[Cascade, ...]:
    """Return all cascades that ``text`` describes, in their order; see ``parse``."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    try:
        tree = _parser().parse(text + "\n")
        return Builder(file, lines).build(tree)
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


_WORDS = {
    "$END": "the end of the text",
    "AND": "'and'",
    "CASCADE": "'cascade NAME'",
    "DEFINE": "'define'",
    "GIVING": "'giving'",
    "INF": "'inf'",
    "INPUT": "'input'",
    "OUTPUT": "'output'",
    "PARAM": "'param'",
    "USE": "'use'",
    "SLASH": "'/'",
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
    ({"NAME", "INPUT", "OUTPUT", "PARAM", "DEFINE", "USE", "END", "CASCADE", "$END"}, "an Einsum, 'input' or 'output'"),
    ({"NAME", "INPUT", "OUTPUT", "PARAM", "DEFINE", "USE", "CASCADE", "$END"}, "an Einsum, 'input' or 'output'"),
    ({"NAME", "INPUT", "OUTPUT", "PARAM", "DEFINE", "USE", "END"}, "an Einsum, 'input' or 'output'"),
    ({"NAME", "INPUT", "OUTPUT", "PARAM", "DEFINE", "USE"}, "an Einsum, 'input' or 'output'"),
    ({"CASCADE", "END"}, "'cascade NAME' ahead of all else"),
    ({"NAME", "NUMBER", "LPAR", "INF", "MINUS"}, "a tensor, a number, a function or '('"),
    ({"NAME", "INPUT", "OUTPUT", "END", "$END"}, "an Einsum, 'input' or 'output'"),
    ({"NAME", "INPUT", "OUTPUT"}, "an Einsum, 'input' or 'output'"),
    ({"PLUS", "MINUS", "STAR", "SLASH", "COMPARISON"}, "an operator (+, -, *, / or a comparison)"),
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


def _shortened(text: str) -> str:
    return repr(text if len(text) <= EXCERPT_COLUMNS else f"{text[:EXCERPT_COLUMNS]}...")


def _syntax_problem(error: UnexpectedToken, file: str, lines: Sequence[str]) -> Problem:
    token, expected = error.token, error.accepts or error.expected
    given = _WORDS[token.type] if token.type in ("END", "$END") else _shortened(str(token))
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


EXCERPT_COLUMNS = 100
"""Most of a line that an excerpt shows."""


def _excerpt(line: str, place: Place) -> str:
    number, column = str(place.line), place.column
    if len(line) > EXCERPT_COLUMNS:
        begin = min(max(column - EXCERPT_COLUMNS // 2, 0), max(len(line) - EXCERPT_COLUMNS, 0))
        line, column = line[begin : begin + EXCERPT_COLUMNS], column - begin
    # Tabs are kept ahead of the caret so that it stands below its column whatever their width.
    lead = re.sub(r"[^\t]", " ", line[: column - 1]).ljust(column - 1)
    return f"  {number} | {line.rstrip()}\n  {' ' * len(number)} | {lead}^"
