"""Cascades as data: what follows from the text of one, sizes, and exact counts of operations."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.cascade import Cascade, Einsum, Reduction, Tensor, cascade_names, load_cascade
from accel.errors import InputError
from accel.expression import Access, Index, Operation
from accel.notation import parse

SIZES = {"P": 96, "M": 128, "M0": 16, "E": 32, "F": 64}


def totals(name: str) -> dict[str, int]:
    """Return the operations of a packaged cascade by operator, products of Q, K and V counted apart."""
    cascade = load_cascade(name)
    found: dict[str, int] = {}
    for einsum, operations in cascade.operation_counts(SIZES).items():
        contracts = {read.tensor for read in cascade.einsum(einsum).reads} & {"Q", "K", "V"}
        for operator, count in operations.items():
            key = f"{operator} in products" if contracts else operator
            found[key] = found.get(key, 0) + count
    return found


def test_the_three_pass_form_counts_as_its_equations_say() -> None:
    p, m, e, f = (SIZES[symbol] for symbol in "PMEF")
    counts = totals("attention-3pass")
    products = e * m * p + f * m * p
    assert counts == {
        "multiply in products": products,
        "add in products": products,
        "max": m * p,
        "subtract": m * p,
        "exp": m * p,
        "add": m * p,
        "divide": m * p,
    }


def test_deferring_the_division_leaves_one_division_for_each_output() -> None:
    p, m, f = (SIZES[symbol] for symbol in "PMF")
    plain, deferred = totals("attention-3pass"), totals("attention-3pass-deferred")
    assert deferred.pop("divide") == f * p
    assert plain.pop("divide") == m * p
    assert plain == deferred


def test_the_one_pass_form_adds_only_work_for_each_tile() -> None:
    p, m, e, f = (SIZES[symbol] for symbol in "PMEF")
    m1 = m // SIZES["M0"]
    products = e * m * p + f * m * p
    assert totals("attention-1pass") == {
        "multiply in products": products,
        "add in products": products,
        "max": m * p + m1 * p,
        "subtract": m * p + m1 * p,
        "exp": m * p + m1 * p,
        "add": m * p + (1 + f) * m1 * p,
        "multiply": (1 + f) * m1 * p,
        "divide": f * p,
    }


def test_counts_of_partial_tiles_leave_out_what_lies_past_the_end() -> None:
    counts = load_cascade("attention-1pass").operation_counts({"P": 2, "M": 10, "M0": 4, "E": 3, "F": 5})
    assert counts["SLN"] == {"subtract": 20, "exp": 20}
    assert counts["BQK"] == {"multiply": 60, "add": 60}
    assert counts["RM"] == {"max": 2 * 3}


def test_initial_values_count_with_the_einsum_that_they_start() -> None:
    cascade = parse("cascade x\ninput A[k]\nR[0] = A[0] * 2\nR[k+1] = R[k] + A[k]\n")
    assert cascade.operation_counts({"K": 7}) == {"R": {"add": 7, "multiply": 1}}


def test_operations_on_constants_alone_are_not_counted() -> None:
    einsum = parse("cascade x\ninput A[k]\nZ[k] = A[k] * (1 / sqrt(K) + 2) - -A[k]\n").einsum("Z")
    assert einsum.map_operations == {"multiply": 1, "negate": 1, "subtract": 1}


def test_map_operations_stand_in_the_order_of_computation() -> None:
    assert list(load_cascade("attention-3pass").einsum("SN").map_operations) == ["subtract", "exp"]


@settings(max_examples=150)
@given(
    sizes=st.fixed_dictionaries({"P": st.integers(1, 6), "M": st.integers(1, 9), "M0": st.integers(1, 4)}),
    conditions=st.lists(
        st.tuples(
            st.integers(-2, 2), st.integers(-2, 2), st.integers(-1, 1), st.integers(-4, 6),
            st.sampled_from(["<=", "<", ">=", ">", "==", "!="]),
        ),
        min_size=1,
        max_size=3,
    ),
)  # fmt: skip
def test_filtered_points_are_counted_as_by_enumeration(sizes: dict[str, int], conditions: list[Any]) -> None:
    text = ", ".join(f"{a}*p + {b}*m1 {sign} {c}*m0 + {d}" for a, b, c, d, sign in conditions)
    cascade = parse(f"cascade x\ninput A[p,m]\nZ[p,m1,m0] = A[p,m1*M0+m0] * 2 where {text.replace('+ -', '- ')}\n")
    compare = {
        "<=": int.__le__, "<": int.__lt__, ">=": int.__ge__, ">": int.__gt__, "==": int.__eq__, "!=": int.__ne__,
    }  # fmt: skip
    m, tile = sizes["M"], sizes["M0"]
    number = sum(
        all(compare[sign](a * p + b * m1, c * m0 + d) for a, b, c, d, sign in conditions)
        for p, m1, m0 in itertools.product(range(sizes["P"]), range(-(-m // tile)), range(tile))
        if m1 * tile + m0 < m
    )
    assert cascade.operation_counts(sizes)["Z"] == {"multiply": number}


def test_counting_a_causal_mask_over_a_million_keys_takes_no_time() -> None:
    cascade = parse("cascade x\ninput A[p,m] B[m,f]\nZ[p,f] = A[p,m] * B[m,f] where m <= p\n")
    size = 1 << 20
    counts = cascade.operation_counts({"P": size, "M": size, "F": 64})
    assert counts["Z"]["multiply"] == 64 * size * (size + 1) // 2


def test_partitioned_accesses_give_the_number_of_tiles() -> None:
    sizes = load_cascade("attention-1pass").sizes({"P": 1, "M": 100, "M0": 16, "E": 4, "F": 4, "Z": 3})
    assert sizes == {"P": 1, "E": 4, "M": 100, "F": 4, "M1": 7, "M0": 16}


def test_a_size_follows_from_its_tiles_and_their_number() -> None:
    assert load_cascade("attention-1pass").sizes({"P": 1, "M1": 7, "M0": 16, "E": 4, "F": 4})["M"] == 112


def test_two_names_of_one_rank_have_one_size() -> None:
    assert parse("cascade x\ninput A[k]\nZ[i] = A[i]\n").sizes({"K": 5}) == {"K": 5, "I": 5}


def test_nested_partitions_give_all_sizes_and_count_the_elements() -> None:
    cascade = parse("cascade x\ninput A[m]\nZ[m2] = A[m2*M1*M0 + m1*M0 + m0]\n")
    assert cascade.sizes({"M": 100, "M1": 4, "M0": 3})["M2"] == 9
    assert cascade.operation_counts({"M": 100, "M1": 4, "M0": 3}) == {"Z": {"add": 100}}


def test_the_one_pass_cascade_tells_its_structure() -> None:
    cascade = load_cascade("attention-1pass")
    rm = cascade.einsum("RM")
    assert (rm.iterative_rank, rm.ranks, rm.is_initial, rm.reduction) == ("m1", ("p", "m1"), False, None)
    assert cascade.tensors["RM"].shape({"P": 3, "M1": 4}) == (3, 5)
    assert [einsum.name for einsum in cascade.einsums if einsum.is_initial] == ["RM", "RD", "RNV"]
    assert [read.final_ranks for read in cascade.einsum("AV").reads] == [("m1",), ("m1",)]
    assert cascade.einsum("BQK").reduction == Reduction(operator="add", ranks=("e",))
    assert cascade.einsum("LM").reduction == Reduction(operator="max", ranks=("m0",))
    assert dict(cascade.partitions) == {("m1", "m0"): "m"}
    assert cascade.outputs == ("AV",)


def test_only_einsums_that_depend_on_each_other_step_by_step_form_a_loop() -> None:
    loops = [
        ([einsum.name for einsum in stage.einsums], stage.rank)
        for stage in load_cascade("attention-1pass").stages
        if stage.rank is not None
    ]
    assert loops == [(["RM"], "m1"), (["SPD", "RD"], "m1"), (["SPNV", "RNV"], "m1")]


def test_stages_run_every_einsum_after_those_it_reads() -> None:
    for name in cascade_names():
        cascade = load_cascade(name)
        order = [einsum for stage in cascade.stages for einsum in stage.einsums]
        assert sorted(map(str, order)) == sorted(map(str, cascade.einsums))


def test_a_cascade_built_from_data_equals_the_one_read_from_its_text() -> None:
    built = Cascade(
        name="x",
        inputs=(Tensor(name="A", ranks=("k",)),),
        einsums=(
            Einsum(
                output=Access(tensor="Y"),
                expression=Operation(operator="exp", operands=(Access(tensor="A", indices=(Index.of("k"),)),)),
                reduction=Reduction(operator="max", ranks=("k",)),
            ),
        ),
    )
    assert str(built) == "cascade x\n  input A[k]\n  Y = exp(A[k]) :: max[k]\n"
    assert parse(str(built)) == built


def test_a_cascade_built_from_data_is_checked_like_one_from_text() -> None:
    with pytest.raises(InputError, match="unknown tensor B"):
        Cascade(
            name="x",
            inputs=(Tensor(name="A", ranks=("k",)),),
            einsums=(
                Einsum(
                    output=Access(tensor="Z", indices=(Index.of("k"),)),
                    expression=Access(tensor="B", indices=(Index.of("k"),)),
                ),
            ),
        )


def test_outputs_are_the_tensors_that_nothing_else_reads() -> None:
    assert parse("cascade x\ninput A[k]\nY = A[k]\nR[0] = 0\nR[k+1] = R[k] + A[k]\nX = Y\n").outputs == ("R", "X")
    assert parse("cascade x\ninput A[k]\nY = A[k]\nX = Y\noutput Y\n").outputs == ("Y",)


def test_every_packaged_cascade_names_its_source() -> None:
    assert len(cascade_names()) >= 11
    for name in cascade_names():
        cascade = load_cascade(name)
        assert cascade.name == name
        assert "Source: " in cascade.description
