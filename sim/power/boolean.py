"""Boolean functions of Liberty files, evaluated on words of 64 independent bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError

__all__ = ["Function", "Words", "compile_function"]

Words = NDArray[np.uint64]
Function = Callable[[Sequence[Words]], Words]

_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[01!'&*|+^()])")
_LEVELS = ("|+", "^", "&*")
"""Operators from the loosest to the tightest, as Liberty has them."""


def compile_function(text: str, inputs: Sequence[str]) -> Function:
    """Return the function ``text``, such as ``!(A1 & A2)``, of the pins ``inputs``.

    Parameters
    ----------
    text : str
        With ``!`` and ``'`` for not, ``&`` and ``*`` for and, ``^`` for exclusive or, ``|`` and ``+`` for or.
    inputs : sequence of str
        Pin names, in the order in which their words will be given.

    Raises
    ------
    InputError
        The text is no such function, or names another pin.
    """
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text):
        raise InputError(f"a cell's function must be made of pins and ! & | ^, not {text!r}")
    parser = _Parser(tokens, list(inputs), text)
    function = parser.expression(0)
    if parser.tokens:
        raise parser.problem()
    return function


class _Parser:
    """Turns tokens into nested functions; ``tokens`` holds what is left."""

    def __init__(self, tokens: list[str], inputs: list[str], text: str) -> None:
        self.tokens, self.inputs, self.text = tokens, inputs, text

    def problem(self) -> InputError:
        return InputError(f"a cell's function must be one of the pins {', '.join(self.inputs)}, not {self.text!r}")

    def expression(self, level: int) -> Function:
        if level == len(_LEVELS):
            return self.operand()
        result = self.expression(level + 1)
        while self.tokens and self.tokens[0] in _LEVELS[level]:
            self.tokens.pop(0)
            result = _binary(_LEVELS[level], result, self.expression(level + 1))
        return result

    def operand(self) -> Function:
        if not self.tokens:
            raise self.problem()
        token = self.tokens.pop(0)
        if token == "!":
            result = _inverse(self.operand())
        elif token == "(":
            result = self.expression(0)
            if not self.tokens or self.tokens.pop(0) != ")":
                raise self.problem()
        elif token in self.inputs:
            result = _pin(self.inputs.index(token))
        else:
            raise self.problem()
        while self.tokens and self.tokens[0] == "'":
            self.tokens.pop(0)
            result = _inverse(result)
        return result


def _pin(index: int) -> Function:
    return lambda words: words[index]


def _inverse(inner: Function) -> Function:
    return lambda words: ~inner(words)


def _binary(level: str, left: Function, right: Function) -> Function:
    if level == "^":
        return lambda words: left(words) ^ right(words)
    if level == "&*":
        return lambda words: left(words) & right(words)
    return lambda words: left(words) | right(words)
