"""Evaluation against plain formulas, and against a reading of the notation point by point."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.cascade import Cascade, Einsum, cascade_names, load_cascade
from accel.expression import FUNCTIONS, Access, Expression, Index, Number, Operation, RankValue, SizeValue
from accel.notation import parse
from accel.numerics import FixedPoint

ATTENTION = [
    name
    for name in cascade_names()
    if name.startswith("attention-") and not any(each.conditions for each in load_cascade(name).einsums)
]
NARROW = "s16f10,nearest_even,saturate"
STABLE = [name for name in ATTENTION if "naive" not in name]
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-2}


def attention(q: Any, k: Any, v: Any) -> Any:
    """Softmax attention in float64, row by row."""
    result = np.empty((len(q), v.shape[1]))
    for row, query in enumerate(np.asarray(q, dtype=np.float64)):
        scores = np.asarray(k, dtype=np.float64) @ query
        weights = np.exp(scores - scores.max())
        result[row] = (weights / weights.sum()) @ np.asarray(v, dtype=np.float64)
    return result


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_cascades_compute_attention(name: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    q, k, v = rng.normal(size=(5, 4)), rng.normal(size=(24, 4)), rng.normal(size=(24, 3))
    q, k, v = (array.astype(dtype) for array in (q, k, v))
    for tile in (1, 4, 24):
        result = load_cascade(name).evaluate({"Q": q, "K": k, "V": v}, {"M0": tile}, dtype)["AV"]
        assert result.dtype == dtype
        assert np.abs(result - attention(q, k, v)).max() < TOLERANCE[dtype]


@settings(max_examples=60)
@given(
    name=st.sampled_from(ATTENTION),
    queries=st.integers(1, 4),
    tiles=st.integers(1, 4),
    tile=st.integers(1, 4),
    dims=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    seed=st.integers(0, 2**32 - 1),
)
def test_attention_holds_at_any_small_size(
    name: str, queries: int, tiles: int, tile: int, dims: tuple[int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    keys = tiles * tile
    q, k, v = rng.normal(size=(queries, dims[0])), rng.normal(size=(keys, dims[0])), rng.normal(size=(keys, dims[1]))
    result = load_cascade(name).evaluate({"Q": q, "K": k, "V": v}, {"M0": tile})["AV"]
    np.testing.assert_allclose(result, attention(q, k, v), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", STABLE)
@pytest.mark.parametrize(
    "scores",
    [
        np.tile([1e4, -1e4], (3, 6)),
        np.tile(np.linspace(-1e4, 1e4, 12), (3, 1)),
        np.tile(np.linspace(1e4, -1e4, 12), (3, 1)),
        np.full((3, 12), 1e4),
        np.full((3, 12), -1e4),
        np.where(np.arange(12) == 7, 0.0, -1e4)[None].repeat(3, axis=0),
    ],
    ids=["alternating", "rising", "falling", "equal and high", "equal and low", "one above all"],
)
def test_stable_cascades_survive_adversarial_scores(name: str, dtype: str, scores: Any) -> None:
    v = np.random.default_rng(2).normal(size=(12, 3))
    # With K = identity the scores are Q itself.
    result = load_cascade(name).evaluate({"Q": scores, "K": np.eye(12), "V": v}, {"M0": 4}, dtype)["AV"]
    np.testing.assert_allclose(result, attention(scores, np.eye(12), v), rtol=1e-5, atol=1e-6)


def test_the_naive_form_overflows_as_its_description_says() -> None:
    q = np.full((1, 1), 1e4)
    result = load_cascade("attention-naive").evaluate({"Q": q, "K": np.ones((2, 1)), "V": np.ones((2, 1))})["AV"]
    assert np.isnan(result).all()


def test_a_wrong_correction_in_the_one_pass_form_is_noticed() -> None:
    broken = parse(str(load_cascade("attention-1pass")).replace("exp(RM[p,m1] - RM[p,m1+1])", "exp(0 * RM[p,m1+1])"))
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(8, 4)) for _ in range(3))
    result = broken.evaluate({"Q": q, "K": k, "V": v}, {"M0": 2})["AV"]
    assert np.abs(result - attention(q, k, v)).max() > 1e-3


@pytest.mark.parametrize("name", ["softmax-naive", "softmax-3pass"])
def test_softmax_cascades_compute_softmax(name: str) -> None:
    x = np.random.default_rng(4).normal(size=(5, 9))
    expected = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(load_cascade(name).evaluate({"QK": x})["A"], expected, rtol=1e-13)


@pytest.mark.parametrize("name", [name for name in cascade_names() if name.startswith("pedagogical")])
def test_pedagogical_cascades_agree(name: str) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.uniform(0.5, 2, size=(2, 11))
    assert load_cascade(name).evaluate({"A": a, "B": b})["Z"] == pytest.approx((a @ b) * a.sum(), rel=1e-12)


def test_intermediate_tensors_are_returned_on_request_with_their_initial_coordinate() -> None:
    x = np.array([3.0, -1.0, 4.0, 1.0])
    cascade = parse("cascade x\ninput X[m]\nR[0] = -inf\nR[m+1] = max(R[m], X[m])\nZ = R[M]\n")
    result = cascade.evaluate({"X": x}, keep=["R", "X"])
    assert list(result) == ["Z", "R", "X"]
    assert result["R"].tolist() == [-math.inf, 3.0, 3.0, 4.0, 4.0]


def test_inputs_are_not_changed_and_lists_are_taken() -> None:
    x = np.array([1.0, 2.0])
    cascade = parse("cascade x\ninput X[m]\nY[m] = X[m]\n")
    cascade.evaluate({"X": x})["Y"][0] = 9.0
    assert x.tolist() == [1.0, 2.0]
    assert cascade.evaluate({"X": [1, 2]})["Y"].tolist() == [1.0, 2.0]


def test_half_precision_sums_keep_their_small_terms() -> None:
    x = np.ones(4096, dtype=np.float16)
    assert parse("cascade x\ninput X[m]\nY = X[m]\n").evaluate({"X": x}, dtype="float16")["Y"] == 4096
    assert parse("cascade x\ninput X[m]\nY = X[m] * X[m]\n").evaluate({"X": x}, dtype="float16")["Y"] == 4096


FUNCTION_REFERENCES: dict[str, Callable[..., Any]] = {
    "abs": abs, "cos": math.cos, "erf": math.erf, "exp": math.exp, "floor": math.floor, "log": math.log,
    "log1p": math.log1p, "max": max, "min": min, "pow": math.pow, "relu": lambda x: max(x, 0.0), "round": round,
    "rsqrt": lambda x: 1 / math.sqrt(x), "select": lambda c, a, b: a if c else b,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "sin": math.sin, "sqrt": math.sqrt, "tanh": math.tanh,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "s32f20,nearest_even,saturate"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_computes_what_its_name_says(name: str, dtype: str) -> None:
    operands = ["A[k]", "B[k]", "C[k]"][: FUNCTIONS[name]]
    cascade = parse(
        f"cascade x\ninput A[k] B[k] C[k]\nZ[k] = {name}({', '.join(operands)}) + 0 * (A[k] + B[k] + C[k])\n"
    )
    # Quarters and halves are exact in every format.
    rows = {"A": [0.5, 2.5, 3.5, 1.25], "B": [1.5, 2.0, -1.0, 0.0], "C": [-2.0, 0.75, 3.0, 1.0]}
    if name in ("floor", "round", "abs", "relu", "sigmoid", "erf", "tanh"):
        rows["A"] = [-0.5, 2.5, -3.5, 1.25]
    found = cascade.evaluate(rows, dtype=dtype)["Z"].astype(float)
    expected = [FUNCTION_REFERENCES[name](*each) for each in zip(*list(rows.values())[: FUNCTIONS[name]], strict=True)]
    tolerance = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2}.get(dtype, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("sign", "holds"), [("<=", "110"), ("<", "100"), (">=", "011"), (">", "001"), ("==", "010"), ("!=", "101")]
)
def test_a_comparison_is_one_where_it_holds(sign: str, holds: str) -> None:
    cascade = parse(f"cascade x\ninput A[k]\nY[k] = (A[k] {sign} 2)\nZ[k] = select(A[k] {sign} 2, 5, -5)\noutput Y Z\n")
    result = cascade.evaluate({"A": [1.0, 2.0, 3.0]})
    assert result["Y"].tolist() == [float(each) for each in holds]
    assert result["Z"].tolist() == [5.0 if each == "1" else -5.0 for each in holds]


def test_a_sigmoid_overflows_on_neither_side() -> None:
    cascade = parse("cascade x\ninput A[k]\nZ[k] = sigmoid(A[k])\n")
    assert cascade.evaluate({"A": [-1e4, 1e4, 0.0]}, dtype="float32")["Z"].tolist() == [0.0, 1.0, 0.5]


def test_a_rank_is_its_coordinate_in_sums_filters_and_loops() -> None:
    cascade = parse(
        "cascade x\ninput A[k]\nS = A[k] * k\nT[i] = A[k] * (i - k) where k < i\nR[0] = 0\nR[k+1] = R[k] + k * A[k]\n"
        "L[k] = pow(2, -k) * A[k]\nG[h] = h + 1\noutput S T R L G\n"
    )
    a = np.array([3.0, 1.0, 4.0, 1.0])
    found = cascade.evaluate({"A": a}, {"I": 4, "H": 3})
    assert found["S"] == a @ np.arange(4)
    assert found["T"].tolist() == [sum(a[k] * (i - k) for k in range(i)) for i in range(4)]
    assert found["R"].tolist() == [0, *np.cumsum(np.arange(4) * a)]
    assert found["L"].tolist() == [3.0, 0.5, 1.0, 0.125]
    assert found["G"].tolist() == [1.0, 2.0, 3.0]


@settings(max_examples=100)
@given(
    rows=st.integers(1, 3),
    length=st.integers(1, 7),
    number=st.integers(1, 9),
    cut=st.integers(0, 7),
    seed=st.integers(0, 99),
)
def test_top_gives_the_largest_in_order_and_nothing_past_the_end(
    rows: int, length: int, number: int, cut: int, seed: int
) -> None:
    x = np.random.default_rng(seed).integers(-3, 4, size=(rows, length)).astype(float)
    cascade = parse("cascade x\ninput X[p,m]\nT[j,p] = X[p,m] :: top[m] where m >= C\n")
    found = cascade.evaluate({"X": x}, {"J": number, "C": cut or 1})["T"]
    for row in range(rows):
        ordered = sorted(x[row, cut or 1 :], reverse=True)[:number]
        assert found[:, row].tolist() == ordered + [-math.inf] * (number - len(ordered))


def test_bfloat16_rounds_every_operation_and_once_every_sum() -> None:
    cascade = parse("cascade x\ninput A[k]\nB[k] = A[k] * A[k] + 1\nS = A[k]\noutput B S\n")
    a = np.array([1.0078125, 0.00390625, *[0.001] * 1000])
    found = cascade.evaluate({"A": a}, dtype="bfloat16")
    assert found["B"].dtype == ml_dtypes.bfloat16

    def rounded(value: Any) -> Any:
        return np.asarray(value, np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)

    inputs = rounded(a)
    assert found["B"].astype(float).tolist() == rounded(rounded(inputs * inputs) + np.float32(1)).tolist()
    # 1000 summands of 0.001 would vanish beside 1 in bfloat16 itself.
    assert float(found["S"]) == pytest.approx(float(inputs.astype(float).sum()), rel=2**-8)


def test_fixed_point_rounds_inputs_and_the_result_of_each_einsum() -> None:
    cascade = parse("cascade x\ninput A[k]\nB[k] = A[k] * A[k] * A[k]\nS = B[k]\noutput B S\n")
    spec = FixedPoint.parse(NARROW)
    found = cascade.evaluate({"A": [0.3, -1.7, 100.0]}, dtype=spec)
    codes = spec.quantize([0.3, -1.7, 100.0])
    cubes = spec.quantize(spec.to_real(codes) ** 3)
    assert found["B"].tolist() == spec.to_real(cubes).tolist()
    assert found["B"][2] == spec.max_value
    assert found["S"] == spec.to_real(spec.quantize(spec.to_real(cubes).sum()))
    assert found["S"] == cascade.evaluate({"A": [0.3, -1.7, 100.0]}, dtype=NARROW)["S"]


def test_attention_in_fixed_point_is_off_by_a_few_steps() -> None:
    rng = np.random.default_rng(9)
    q, k, v = (rng.normal(size=(16, 8)) / 2 for _ in range(3))
    found = load_cascade("attention-1pass").evaluate(
        {"Q": q, "K": k, "V": v}, {"M0": 4}, "s24f16,nearest_even,saturate"
    )
    error = np.abs(found["AV"] - attention(q, k, v)).max()
    assert 0 < error < 20 * 2.0**-16


def test_twelve_heads_of_a_thousand_tokens_take_seconds() -> None:
    text = str(load_cascade("attention-3pass")).replace("[p,", "[h,p,").replace("[p]", "[h,p]").replace("[m,", "[h,m,")
    rng = np.random.default_rng(10)
    q, k, v = (rng.normal(size=(12, 1024, 64)).astype(np.float32) / 3 for _ in range(3))
    start = time.process_time()
    found = parse(text).evaluate({"Q": q, "K": k, "V": v}, dtype="float32")["AV"]
    assert time.process_time() - start < 15  # about 1; the margin is for a busy machine
    np.testing.assert_allclose(found[5, :20], attention(q[5, :20], k[5], v[5]), rtol=1e-4, atol=1e-5)


def test_infinite_inputs_mask_their_keys() -> None:
    x = np.array([[0.0, -math.inf, 1.0]])
    a = load_cascade("softmax-3pass").evaluate({"QK": x})["A"]
    assert a[0, 1] == 0
    assert a.sum() == pytest.approx(1.0)


def test_a_filter_leaves_out_infinities_even_in_a_sum_of_products() -> None:
    cascade = parse("cascade x\ninput A[p,m] B[m]\nZ[p] = A[p,m] * B[m] where m < p\n")
    result = cascade.evaluate({"A": np.ones((2, 2)), "B": np.array([2.0, math.inf])})["Z"]
    assert result.tolist() == [0.0, 2.0]


def test_coordinates_that_a_filter_leaves_out_may_lie_outside() -> None:
    cascade = parse("cascade x\ninput A[k]\nD[k] = A[k] - A[k-1] where k >= 1\n")
    assert cascade.evaluate({"A": np.array([1.0, 4.0, 9.0])})["D"].tolist() == [0.0, 3.0, 5.0]


# A reading of the notation point by point, for small random cascades.


def slow(
    cascade: Cascade, inputs: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, dict[tuple[int, ...], float]]:
    tensors: dict[str, dict[tuple[int, ...], float]] = {
        name: {tuple(at): float(array[tuple(at)]) for at in np.ndindex(array.shape)} for name, array in inputs.items()
    }
    for stage in cascade.stages:
        for step in range(sizes[stage.rank.upper()]) if stage.rank else [None]:
            for einsum in stage.einsums:
                _slow_einsum(einsum, tensors, sizes, {} if step is None else {str(stage.rank): step})
    return tensors


def _slow_einsum(einsum: Einsum, tensors: Any, sizes: Mapping[str, int], bound: Mapping[str, int]) -> None:
    identity = {"add": 0.0, "max": -math.inf, "min": math.inf}
    combine: dict[str, Callable[[float, float], float]] = {"add": lambda a, b: a + b, "max": max, "min": min}
    compare: dict[str, Callable[[int, int], bool]] = {"<=": lambda a, b: a <= b, ">": lambda a, b: a > b}
    operator = einsum.reduction.operator if einsum.reduction else None
    free = [rank for rank in einsum.ranks if rank not in bound]
    target = tensors.setdefault(einsum.name, {})
    for point in itertools.product(*(range(sizes[rank.upper()]) for rank in free)):
        where = dict(zip(free, point, strict=True)) | dict(bound)

        def at(index: Index, where: Mapping[str, int] = where) -> int:
            return sum(
                term.factor * math.prod(sizes[s] for s in term.symbols) * (where[term.rank] if term.rank else 1)
                for term in index.terms
            )

        def value(node: Expression, at: Callable[[Index], int] = at) -> float:
            if isinstance(node, Number):
                return node.value
            if isinstance(node, SizeValue):
                return float(sizes[node.symbol])
            if isinstance(node, Access):
                return tensors[node.tensor][tuple(map(at, node.indices))]
            if isinstance(node, RankValue):
                return float(at(Index.of(node.rank)))
            assert isinstance(node, Operation)
            operands = [value(each) for each in node.operands]
            plain: dict[str, Callable[..., float]] = {
                "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
                "divide": lambda a, b: a / b, "max": max, "exp": math.exp,
                "select": lambda c, a, b: a if c else b, "at_most": lambda a, b: float(a <= b),
            }  # fmt: skip
            return plain[node.operator](*operands)

        output = tuple(map(at, einsum.output.indices))
        passed = all(compare[each.comparison](at(each.left), at(each.right)) for each in einsum.conditions)
        if operator is None:
            target[output] = value(einsum.expression) if passed else 0.0
        else:
            before = target.get(output, identity[operator])
            target[output] = combine[operator](before, value(einsum.expression)) if passed else before


@settings(max_examples=200)
@given(
    body=st.sampled_from(
        [
            "A[i,j] * B[j,k]", "A[i,j] * B[j,k] * C[k]", "2 * A[i,j] * B[j,k] / J", "A[i,j] + B[j,k]",
            "A[i,j] * A[i,j]",
            "A[i,i] * C[j]", "(A[i,j] + C[j]) * B[j,k]", "A[i,j1*J0+j0] * B[j1*J0+j0,k]", "A[i,j0+j1*J0] * 3",
            "C[2*j1+j0-j0] * A[i,j]", "exp(A[i,j] - C[j]) * B[j,k]", "A[i,0] * B[j,k]", "A[I-1-i,j] / J",
            "A[i,j] * (j - i)", "i * B[j,k]", "i * j", "select(A[i,j] <= k, A[i,j], k - C[j]) * B[j,k]",
            "(i <= j) * A[i,j]",
        ]
    ),
    left=st.permutations(["i", "j", "k", "j1", "j0"]),
    number=st.integers(0, 3),
    operator=st.sampled_from(["add", "max", "min"]),
    condition=st.sampled_from(["", "", " where i <= j", " where i > 0", " where j > i, j <= k"]),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_vectorised_evaluation_is_the_reading_point_by_point(
    body: str, left: list[str], number: int, operator: str, condition: str, seed: int
) -> None:
    used = set(parse(f"cascade x\ninput A[i,j] B[j,k] C[j]\nZ = {body}{condition}\n").einsums[0].ranks)
    output = [rank for rank in left if rank in used][:number]
    rest = ",".join(sorted(used.difference(output)))
    reduction = f" :: {operator}[{rest}]" if rest else ""
    cascade = parse(f"cascade x\ninput A[i,j] B[j,k] C[j]\nZ[{','.join(output)}] = {body}{reduction}{condition}\n")
    rng = np.random.default_rng(seed)
    sizes = {"I": 4, "J": 4, "K": 4, "J0": 2, "J1": 2}
    inputs = {"A": rng.normal(size=(4, 4)), "B": rng.normal(size=(4, 4)), "C": rng.normal(size=4)}
    expected = slow(cascade, inputs, sizes)["Z"]
    result = cascade.evaluate(inputs, {"J0": 2, "J1": 2})["Z"]
    assert result.size == len(expected)
    for at, value in expected.items():
        assert result[at] == pytest.approx(value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["attention-1pass", "attention-2pass"])
def test_every_intermediate_of_the_tiled_forms_is_the_reading_point_by_point(name: str) -> None:
    cascade = load_cascade(name)
    rng = np.random.default_rng(6)
    inputs = {"Q": rng.normal(size=(2, 3)), "K": rng.normal(size=(6, 3)), "V": rng.normal(size=(6, 2))}
    sizes = cascade.sizes({"P": 2, "M": 6, "E": 3, "F": 2, "M0": 2})
    expected = slow(cascade, inputs, sizes)
    result = cascade.evaluate(inputs, {"M0": 2}, keep=list(cascade.tensors))
    for tensor, array in result.items():
        for at in np.ndindex(array.shape):
            assert array[at] == pytest.approx(expected[tensor][at], rel=1e-12, abs=1e-300)
