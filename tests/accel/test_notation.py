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

from accel.cascade import Cascade, Einsum, Parameter, Reduction, Tensor, cascade_names, load_cascade, load_cascades
from accel.errors import InputError
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
from accel.notation import parse, parse_all

PAGE = (Path(__file__).parents[2] / "docs" / "notation.md").read_text(encoding="utf-8")
TEXTS = re.findall(r"```cascade\n(.*?)```", PAGE, re.S)
EXAMPLES = {cascade.name: cascade for text in TEXTS for cascade in parse_all(text)}


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


def test_the_later_examples_of_the_grammar_page_compute_what_it_says() -> None:
    rng = np.random.default_rng(7)
    x, v = rng.normal(size=(4, 6)), rng.normal(size=(6, 2))
    weights = np.exp(x / 2) / np.exp(x / 2).sum(axis=1, keepdims=True)
    assert EXAMPLES["tempered-softmax"].evaluate({"X": x}, parameters={"tau": 2})["A"] == pytest.approx(weights)
    q, k = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    expected = np.exp(q @ k.T) / np.exp(q @ k.T).sum(axis=1, keepdims=True) @ v
    assert EXAMPLES["attention-of-parts"].evaluate({"Q": q, "K": k, "V": v})["O"] == pytest.approx(expected)
    slopes = 2.0 ** (-8 * np.arange(1, 3) / 2)
    biased = x[None, :, :] + slopes[:, None, None] * (np.arange(6)[None, None] - np.arange(4)[None, :, None])
    assert EXAMPLES["position-bias"].evaluate({"X": x}, {"H": 2})["Y"] == pytest.approx(biased)
    silu = (x @ v) / (1 + np.exp(-(x @ v)))
    assert EXAMPLES["silu-layer"].evaluate({"X": x, "W": v})["Y"] == pytest.approx(silu)
    routed = EXAMPLES["router"].evaluate({"X": x}, {"J": 2})
    best = np.sort(x, axis=1)[:, ::-1][:, :2]
    assert routed["T"] == pytest.approx(best)
    kept = np.where(x >= best[:, 1:], np.exp(x), 0)
    assert routed["A"] == pytest.approx(kept / kept.sum(axis=1, keepdims=True))


def test_every_example_of_the_grammar_page_is_tested() -> None:
    assert set(EXAMPLES) == {
        "softmax", "causal-scores", "prefix-sum", "tile-maximum", "running-maximum", "running-mean", "tempered-softmax",
        "weights-of", "attention-of-parts", "position-bias", "silu-layer", "router",
    }  # fmt: skip


def test_the_grammar_page_names_every_function() -> None:
    assert all(f"`{name}`" in PAGE for name in FUNCTIONS)


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


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("select(A[k]>=B[k],A[k],0)", "select(A[k] >= B[k], A[k], 0)"),
        ("(A[k]<C)", "(A[k] < C)"),
        ("(A[k]<C)*2+1", "(A[k] < C) * 2 + 1"),
        ("exp((A[k]==C))", "exp(A[k] == C)"),
        ("log(k+1)*A[k]", "log(k + 1) * A[k]"),
        ("pow(2,-k)*A[k]", "pow(2, -k) * A[k]"),
        ("select(k<K-1,A[k],-inf)", "select(k < K - 1, A[k], -inf)"),
    ],
)
def test_comparisons_and_rank_values_print_as_they_are_read(text: str, printed: str) -> None:
    assert str(expression(text)) == printed
    assert expression(printed) == expression(text)


def test_definitions_are_put_in_place_with_the_fewest_parentheses() -> None:
    text = "cascade x\ninput A[k] B[k]\ndefine f(a,b) = a*b\ndefine g(a) = f(a,a) - -a\nZ[k] = g(A[k] + B[k])\n"
    cascade = parse(text)
    assert str(cascade.einsum("Z")) == "Z[k] = (A[k] + B[k]) * (A[k] + B[k]) - -(A[k] + B[k])"
    assert cascade.einsum("Z").map_operations == {"negate": 1, "add": 1, "multiply": 1, "subtract": 1}


def test_parameters_print_with_their_defaults_and_fill_in_sizes() -> None:
    cascade = parse(
        "cascade x\ninput A[k]\nparam low = -0.5 W = 2\nparam top=inf\nZ[k] = max(low, min(top, A[k])) where k < W\n"
    )
    assert "  param low = -0.5  W = 2  top = inf\n" in str(cascade)
    assert parse(str(cascade)) == cascade
    assert cascade.evaluate({"A": [-9.0, 1.0, 5.0]})["Z"].tolist() == [-0.5, 1.0, 0.0]
    assert cascade.evaluate({"A": [-9.0, 1.0, 5.0]}, {"W": 3}, parameters={"low": 0, "top": 3})["Z"].tolist() == [
        0,
        1,
        3,
    ]


INNER = """cascade inner
  input X[p,m]
  param tau = 1  eps = 0
  LM[p,m1] = X[p,m1*M0+m0] / tau :: max[m0]
  G[p] = LM[p,m1] :: max[m1]
  Y[p,m] = X[p,m] - G[p] + eps * M
  output Y G
"""


def test_a_used_cascade_stands_under_new_names() -> None:
    use = "use inner(X = S, m0 = k0, m1 = k1, eps = 0.5) giving Z, H"
    outer = f"cascade outer\ninput S[q,k]\nparam tau = 2\n{use}\nO[q] = Z[q,k] * H[q]\n"
    assert str(parse(INNER + outer)) == (
        "cascade outer\n"
        "  input S[q,k]\n"
        "  param tau = 2\n"
        "  Z_LM[q,k1] = S[q,k1*K0+k0] / tau :: max[k0]\n"
        "  H[q] = Z_LM[q,k1] :: max[k1]\n"
        "  Z[q,k] = S[q,k] - H[q] + 0.5 * K\n"
        "  O[q] = Z[q,k] * H[q]\n"
    )


def test_a_parameter_of_a_used_cascade_becomes_one_of_the_user() -> None:
    outer = "cascade outer\ninput S[p,m]\nuse inner(X = S, M0 = N) giving Z, H\n"
    cascade = parse(INNER + outer)
    assert [str(each) for each in cascade.parameters] == ["tau = 1", "eps = 0"]
    assert "Z_LM[p,m1] = S[p,m0+m1*N]" in str(cascade) or "Z_LM[p,m1] = S[p,m1*N+m0]" in str(cascade)


def test_a_packaged_cascade_can_be_used_twice() -> None:
    text = "cascade x\ninput X[p,m]\nuse softmax-3pass(QK = X) giving A\nuse softmax-3pass(QK = A) giving B\n"
    x = np.random.default_rng(8).normal(size=(3, 5))
    once = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    assert parse(text).evaluate({"X": x})["B"] == pytest.approx(np.exp(once) / np.exp(once).sum(axis=1, keepdims=True))


def test_a_file_of_several_cascades_gives_the_last_and_any_by_name(tmp_path: Path) -> None:
    path = tmp_path / "two.ein"
    path.write_text(
        "# First.\ncascade a\ninput X[m]\nY = X[m]\n\n# Second.\ncascade b\ninput X[m]\nuse a(X = X) giving Z\n"
    )
    assert [each.name for each in load_cascades(path)] == ["a", "b"]
    assert load_cascade(path).name == "b"
    assert (load_cascade(f"{path}:a").description, load_cascade(f"{path}:b").description) == ("First.", "Second.")
    assert load_cascade("softpick:softpick-weights").name == "softpick-weights"


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
    | st.just(ParameterValue(name="tau"))
    | st.just(RankValue(rank="k"))
)
OPERATORS: dict[str, int] = {
    "add": 2, "subtract": 2, "multiply": 2, "divide": 2, "negate": 1, **FUNCTIONS,
    **dict.fromkeys(COMPARISON_OPERATORS, 2),
}  # fmt: skip


def operations(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def one(operator: str) -> st.SearchStrategy[Expression]:
        operands = st.tuples(*[children] * OPERATORS[operator])
        if operator == "negate":  # the negative of a constant is a constant
            operands = operands.filter(lambda each: not isinstance(each[0], Number))
        return operands.map(lambda each: Operation(operator=operator, operands=each))

    return st.sampled_from(sorted(OPERATORS)).flatmap(one)


@settings(max_examples=400)
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
        name="x",
        inputs=(Tensor(name="A", ranks=("k",)), Tensor(name="C")),
        einsums=(einsum,),
        description="a\n\n b",
        parameters=(Parameter(name="tau", default=0.1),),
    )
    assert parse(str(cascade)) == cascade


@settings(max_examples=400)
@given(st.text("cascdeinputwhr AZk01m[](),=:+-*/<>.#\n\t\r\x0c\xa0é$", max_size=60))
def test_any_text_gives_a_cascade_or_a_clear_error(text: str) -> None:
    _only_input_errors(lambda: parse(text))


@settings(max_examples=400)
@given(data=st.data())
def test_any_change_of_a_good_text_gives_a_cascade_or_a_clear_error(data: st.DataObject) -> None:
    text = str(load_cascade(data.draw(st.sampled_from(cascade_names()))))
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 6))
    fresh = data.draw(
        st.sampled_from(
            [
                "",
                "m",
                "[",
                "]",
                "0",
                "M1",
                "+1",
                "RM",
                "::",
                "where",
                "\n",
                "=",
                "q",
                "-",
                ",",
                "param q = 1\n",
                "use ",
                "define f(a) = a\n",
                "select(",
                " <= ",
            ]
        )
    )
    _only_input_errors(lambda: parse(text[:at] + fresh + text[at + cut :]))


def _only_input_errors(read: Callable[[], Cascade]) -> None:
    try:
        cascade = read()
    except InputError as error:
        assert all(problem.message and problem.place for problem in error.problems)
    else:
        assert parse(str(cascade)) == cascade
