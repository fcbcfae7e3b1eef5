"""The notation: what it means, its canonical form, and that nothing but a clear error comes out of wrong text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.cascade import Cascade, Einsum, Reduction, Tensor, cascade_names, load_cascade
from accel.errors import InputError
from accel.expression import Access, Condition, Expression, Index, Number, Operation, SizeValue, Term
from accel.notation import parse

PAGE = (Path(__file__).parents[2] / "docs" / "notation.md").read_text(encoding="utf-8")
EXAMPLES = {parse(text).name: parse(text) for text in re.findall(r"```cascade\n(.*?)```", PAGE, re.S)}


def expression(text: str) -> Expression:
    return parse(f"cascade x\ninput A[k] B[k] C\nZ[k] = {text}\n").einsum("Z").expression


@pytest.mark.parametrize(
    "cascade", [*EXAMPLES.values(), *map(load_cascade, cascade_names())], ids=lambda each: each.name
)
def test_printing_gives_a_canonical_text_of_an_equal_cascade(cascade: Cascade) -> None:
    assert parse(str(cascade)) == cascade
    assert str(parse(str(cascade))) == str(cascade)


def test_the_examples_of_the_grammar_page_compute_what_it_says() -> None:
    x = np.array([3.0, -1.0, 4.0, 1.5, -5.0, 9.0])
    tiles = {"M0": 2}
    assert EXAMPLES["prefix-sum"].evaluate({"A": x}, {"I": 6})["S"] == pytest.approx(np.cumsum(x))
    assert EXAMPLES["tile-maximum"].evaluate({"X": x}, tiles)["LM"].tolist() == [3.0, 4.0, 9.0]
    assert EXAMPLES["running-maximum"].evaluate({"X": x}, tiles)["GM"] == 9.0
    assert EXAMPLES["running-mean"].evaluate({"X": x})["MEAN"] == pytest.approx(x.mean())
    rows = np.stack([x, x[::-1]])
    expected = np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)
    assert EXAMPLES["softmax"].evaluate({"X": rows})["A"] == pytest.approx(expected)
    q = np.arange(12.0).reshape(4, 3) / 10
    weights = EXAMPLES["causal-scores"].evaluate({"Q": q, "K": q}, {"W": 2})["A"]
    scores = q @ q.T / math.sqrt(3)
    for row in range(4):
        window = slice(max(0, row - 1), row + 1)
        expected = np.zeros(4)
        expected[window] = np.exp(scores[row, window]) / np.exp(scores[row, window]).sum()
        assert weights[row] == pytest.approx(expected)
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("A[k]+B[k]*C", "A[k] + B[k] * C"),
        ("(A[k]+B[k])*C", "(A[k] + B[k]) * C"),
        ("A[k]-(B[k]-C)", "A[k] - (B[k] - C)"),
        ("(A[k]-B[k])-C", "A[k] - B[k] - C"),
        ("A[k]/(B[k]*C)", "A[k] / (B[k] * C)"),
        ("-A[k]*B[k]", "-A[k] * B[k]"),
        ("-(A[k]*B[k])", "-(A[k] * B[k])"),
        ("A[k]*-2", "A[k] * -2"),
        ("A[k]--1", "A[k] - -1"),
        ("-(2)+A[k]", "-2 + A[k]"),
        ("--A[k]", "--A[k]"),
        ("max(A[k],-inf)*1e-06+.5", "max(A[k], -inf) * 1e-06 + 0.5"),
        ("A[k]/sqrt(K)", "A[k] / sqrt(K)"),
        ("A[-1+k]*A[2*1+k-2]", "A[k-1] * A[k]"),
        ("A[K-1-k]", "A[-k+K-1]"),
    ],
)
def test_expressions_print_with_the_fewest_parentheses(text: str, printed: str) -> None:
    assert str(expression(text)) == printed
    assert expression(printed) == expression(text)


def test_comments_ahead_and_behind_are_kept_and_others_dropped() -> None:
    cascade = parse("# One\n#  two\n\ncascade x # not kept\n# nor this\ninput A[k]\nZ = A[k] # kept # whole\n")
    assert cascade.description == "One\n two"
    assert cascade.einsums[0].comment == "kept # whole"


def test_an_einsum_may_run_over_lines_inside_brackets() -> None:
    cascade = parse("cascade x\ninput A[k,\n  j]\nZ[k] = max(A[k,j],  # first\n\n 0) :: max[\nj]\n")
    assert str(cascade.einsum("Z")) == "Z[k] = max(A[k,j], 0) :: max[j]"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_of_any_system_and_a_missing_last_one_are_read(end: str) -> None:
    assert parse(f"cascade x{end}input A[k]{end}Z = A[k]").outputs == ("Z",)


def test_places_are_kept_for_every_access() -> None:
    cascade = parse("cascade x\ninput A[k] B[k]\nZ = A[k] * B[k]\n", file="f.ein")
    assert [str(read.place) for read in cascade.einsums[0].reads] == ["f.ein:3:5", "f.ein:3:12"]


def test_the_order_of_reduced_ranks_does_not_matter() -> None:
    texts = [f"cascade x\ninput A[j,k]\nZ = A[j,k] :: max[{ranks}]\n" for ranks in ("j,k", "k,j")]
    assert parse(texts[0]) == parse(texts[1])


NAMES = st.sampled_from(["k", "j"])
INDICES = st.builds(lambda rank, offset: Index.of(rank, offset), NAMES, st.integers(-3, 3)) | st.just(
    Index(terms=(Term(rank="j", symbols=("K",)), Term(rank="k")))
)
LEAVES = (
    st.builds(lambda index: Access(tensor="A", indices=(index,)), INDICES)
    | st.just(Access(tensor="C"))
    | st.builds(lambda value: Number(value=value), st.floats(allow_nan=False))
    | st.just(SizeValue(symbol="K"))
)
OPERATORS: dict[str, int] = {
    "add": 2, "subtract": 2, "multiply": 2, "divide": 2, "negate": 1, "exp": 1, "log": 1, "sqrt": 1, "max": 2, "min": 2,
}  # fmt: skip


def operations(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def one(operator: str) -> st.SearchStrategy[Expression]:
        operands = st.tuples(*[children] * OPERATORS[operator])
        if operator == "negate":  # the negative of a constant is a constant
            operands = operands.filter(lambda each: not isinstance(each[0], Number))
        return operands.map(lambda each: Operation(operator=operator, operands=each))

    return st.sampled_from(sorted(OPERATORS)).flatmap(one)


@settings(max_examples=400, deadline=None)
@given(
    body=st.recursive(LEAVES, operations, max_leaves=12),
    conditions=st.lists(
        st.builds(
            lambda left, sign, right: Condition(left=left, comparison=sign, right=right),
            INDICES, st.sampled_from(["<=", "<", ">=", ">", "==", "!="]), INDICES,
        ),
        max_size=2,
    ),
    operator=st.sampled_from(["add", "max", "min"]),
    comment=st.text("ab #[]", max_size=5).map(str.strip),
)  # fmt: skip
def test_any_einsum_reads_back_as_printed(body: Any, conditions: Any, operator: str, comment: str) -> None:
    einsum = Einsum(
        output=Access(tensor="Z", indices=()), expression=body, conditions=tuple(conditions), comment=comment
    )
    if einsum.ranks:
        einsum = Einsum(
            output=einsum.output,
            expression=body,
            conditions=tuple(conditions),
            comment=comment,
            reduction=Reduction(operator=operator, ranks=einsum.ranks),
        )
    cascade = Cascade(
        name="x", inputs=(Tensor(name="A", ranks=("k",)), Tensor(name="C")), einsums=(einsum,), description="a\n\n b"
    )
    assert parse(str(cascade)) == cascade


@settings(max_examples=400, deadline=None)
@given(st.text("cascdeinputwhr AZk01m[](),=:+-*/<>.#\n\t\r\x0c\xa0é$", max_size=60))
def test_any_text_gives_a_cascade_or_a_clear_error(text: str) -> None:
    _only_input_errors(lambda: parse(text))


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_change_of_a_good_text_gives_a_cascade_or_a_clear_error(data: st.DataObject) -> None:
    text = str(load_cascade(data.draw(st.sampled_from(cascade_names()))))
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 6))
    fresh = data.draw(
        st.sampled_from(["", "m", "[", "]", "0", "M1", "+1", "RM", "::", "where", "\n", "=", "q", "-", ","])
    )
    _only_input_errors(lambda: parse(text[:at] + fresh + text[at + cut :]))


def _only_input_errors(read: Callable[[], Cascade]) -> None:
    try:
        cascade = read()
    except InputError as error:
        assert all(problem.message and problem.place for problem in error.problems)
    else:
        assert parse(str(cascade)) == cascade
