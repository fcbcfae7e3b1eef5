"""Derivations: what they arrive at, what they refuse, and that a wrong one never gets out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp

from accel.cascade import Cascade, Einsum, load_cascade
from accel.expression import Access, Expression, Index, Number, Operation
from accel.notation import parse
from mapping.derivation.algebra import Algebra, common_scale, parts
from mapping.derivation.check import SelfCheckError, check, small_sizes
from mapping.derivation.plan import make_plan
from mapping.derivation.rewrite import rewrite
from mapping.derivation.stabilise import stabilise
from mapping.derive import FORMS, Derivation, derive
from mapping.passes import passes
from mapping.plain import load_plain, plain_names

HERE = Path(__file__).parent / "derive"
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "derivation.md"


@cache
def derivation(name: str, form: str = "running") -> Derivation:
    return derive(load_plain(name), form=form)


DERIVED = {
    "absmax-scale": 2,
    "affine-scaled-attention": 2,
    "attention-3pass": 3,
    "attention-3pass-deferred": 2,
    "attention-naive": 2,
    "attention-naive-deferred": 1,
    "attention-sinks": 2,
    "forgetting-attention": 3,
    "layernorm-linear": 3,
    "log-sum-exp": 1,
    "multimax": 2,
    "nap": 3,
    "pedagogical-2pass": 2,
    "relu-layernorm-attention": 3,
    "rmsnorm-linear": 2,
    "self-adjust": 2,
    "self-adjust-normalised": 2,
    "softmax-top-k": 2,
    "softpick": 2,
    "softpool": 2,
    "ssmax": 2,
    "two-exponent-softmax": 2,
}
"""Passes of each plain definition whose 1-pass form is found."""

REFUSED = {
    "absmax-quantised": ("XQ", "round(127 * X[t,d] / S[t]) is piecewise constant"),
    "adaptive-temperature": (
        "W",
        "is no finite sum of (function of B[p] and GM[p] and SD[p]) *",
    ),
    "clipped-softmax": ("A", "is piecewise: which branch an element takes depends on the final GM[p] and SD[p]"),
    "log2-quantised-softmax": (
        "K",
        "piecewise constant: the step of an element depends on the final GM[p] and SD[p]",
    ),
    "softmax-naive": ("A", "A[p,m] is an output with one value for each element of m, and each needs SD[p]"),
    "softmax-3pass": ("A", "A[p,m] is an output with one value for each element of m, and each needs SD[p]"),
    "sparsemax": (
        "A",
        "max(X[p,m] - TAU[p], 0) is piecewise: which branch an element takes depends on the final",
    ),
    "top-k-softmax": ("W", "is piecewise constant: the step of an element depends on the final T[p,0] and T[p,J-1]"),
}
"""The Einsum that forbids a 1-pass form, and a part of the reason."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DERIVED)
def test_the_one_pass_form_is_derived_and_computes_the_same(name: str, form: str) -> None:
    found = derivation(name, form)
    assert found.derived
    assert found.passes_before == DERIVED[name]
    assert found.cascade is not None and found.check is not None
    assert passes(found.cascade, found.rank).passes == found.passes_after == 1
    assert found.check.max_relative_error <= 1e-9
    assert found.check.max_relative_error_single <= 1e-4
    assert parse(str(found.cascade)) == found.cascade


@pytest.mark.parametrize("name", DERIVED)
def test_state_that_runs_does_not_grow_with_the_rank(name: str) -> None:
    found = derivation(name)
    assert found.cascade is not None
    grown = {each.tensor for each in passes(found.cascade, found.rank).live}
    # A count of elements depends on none of them; the prefix of the forget gates is one scalar for each key: both can
    # run ahead, and are one value at a time when they run along.
    assert grown <= ({"C"} if name == "forgetting-attention" else {"RC"})


@pytest.mark.parametrize("name", REFUSED)
def test_where_no_rule_helps_the_einsum_that_forbids_it_is_named(name: str) -> None:
    source, found = load_plain(name), derivation(name)
    einsum, reason = REFUSED[name]
    assert not found.derived
    assert found.blocked[0].einsum == einsum
    assert reason in found.blocked[0].reason
    assert einsum in {each.name for each in source.einsums}


def test_a_refused_form_still_takes_the_fewest_passes_that_the_rules_reach() -> None:
    expected = {"softmax-3pass": (3, 2), "adaptive-temperature": (4, 2), "clipped-softmax": (2, 2)}
    for name, numbers in expected.items():
        found = derivation(name)
        assert (found.passes_before, found.passes_after) == numbers


# The cascade of FlashAttention-2 and of FuseMax.


def canonical(cascade: Cascade) -> list[str]:
    """The Einsums of a cascade without the names of tensors that it writes, and without the order of operands."""
    given = {tensor.name for tensor in cascade.inputs}
    labels = {name: name if name in given else "" for name in cascade.tensors}

    def index(each: Index) -> str:
        return "+".join(sorted(map(str, each.terms)))

    def text(node: Expression) -> str:
        if isinstance(node, Access):
            return f"{labels[node.tensor]}[{','.join(map(index, node.indices))}]"
        if isinstance(node, Operation):
            inner = [text(operand) for operand in node.operands]
            commutes = node.operator in ("add", "multiply", "max", "min")
            return f"{node.operator}({','.join(sorted(inner) if commutes else inner)})"
        return str(node)

    def line(einsum: Einsum) -> str:
        left = ",".join(map(index, einsum.output.indices))
        return f"[{left}]={text(einsum.expression)}::{einsum.reduction}"

    for _ in cascade.einsums:
        written: dict[str, list[str]] = {}
        for einsum in cascade.einsums:
            written.setdefault(einsum.name, []).append(line(einsum))
        fresh = {name: "|".join(sorted(lines)) for name, lines in written.items()}
        numbers = {label: str(number) for number, label in enumerate(sorted(set(fresh.values())))}
        labels.update({name: numbers[label] for name, label in fresh.items()})
    return sorted(f"{labels[einsum.name]}{line(einsum)}" for einsum in cascade.einsums)


@pytest.mark.parametrize(
    "name", ["attention-naive", "attention-naive-deferred", "attention-3pass", "attention-3pass-deferred"]
)
def test_every_plain_attention_arrives_at_the_cascade_of_fusemax(name: str) -> None:
    found = derivation(name)
    assert found.cascade is not None
    assert canonical(found.cascade) == canonical(load_cascade("attention-1pass"))


def test_the_canonical_form_tells_cascades_apart() -> None:
    source = load_cascade("attention-1pass")
    changed = parse(str(source).replace("SLD[p,m1] + SPD[p,m1]", "SLD[p,m1] - SPD[p,m1]"))
    assert canonical(changed) != canonical(source)
    assert canonical(parse(str(source).replace("SPD", "ZZZ"))) == canonical(source)


def test_the_extra_operations_of_attention_are_those_of_fusemax() -> None:
    found = derive(load_cascade("attention-3pass"))
    p, m, f, tile = 32, 512, 16, 64
    extra = found.extra_operations({"P": p, "M": m, "E": 8, "F": f, "M0": tile})
    tiles = p * m // tile
    assert extra == {
        "exp": tiles,
        "subtract": tiles,
        "max": tiles,
        "multiply": (1 + f) * tiles,
        "add": (1 + f) * tiles,
        "divide": p * f - p * m,
    }


# Forms that others wrote by hand.


@pytest.mark.parametrize(
    "name",
    [
        "adaptive-temperature",
        "clipped-softmax",
        "log-sum-exp",
        "log2-quantised-softmax",
        "multimax",
        "nap",
        "self-adjust",
        "self-adjust-normalised",
        "softpick",
        "softpool",
        "sparsemax",
        "ssmax",
        "two-exponent-softmax",
    ],
)
def test_a_derived_form_agrees_with_the_packaged_cascade(name: str) -> None:
    packaged, found = load_cascade(name), derivation(name)
    assert found.cascade is not None
    sizes = {"P": 5, "M": 24, "F": 3, "M0": 6, "J": 24}
    rng = np.random.default_rng(7)
    arrays = {tensor.name: 3 * rng.normal(size=tensor.shape(sizes)) for tensor in packaged.inputs}

    def run(cascade: Cascade) -> np.ndarray[Any, Any]:
        known = {symbol: sizes[symbol] for symbol in cascade.symbols if symbol in sizes}
        return next(iter(cascade.evaluate(arrays, known).values()))

    np.testing.assert_allclose(run(found.cascade), run(packaged), rtol=1e-9, atol=1e-12)


# Single rules.

CASES = sorted(path.stem for path in HERE.glob("*.ein"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_combinations_of_rules_arrive_at_one_pass(name: str, form: str) -> None:
    found = derive(load_cascade(HERE / f"{name}.ein"), form=form)
    assert found.derived
    assert found.check is not None and found.check.max_relative_error <= 1e-9


def rules(name: str) -> list[str]:
    source = load_plain(name) if name in plain_names() else load_cascade(HERE / f"{name}.ein")
    return [step.rule for step in derive(source).steps]


def test_two_exponentials_under_one_sum_share_a_shift_and_others_do_not() -> None:
    assert rules("joint-branches").count("shift") == 1
    assert rules("two-branches").count("shift") == 2


def test_a_term_of_the_row_leaves_the_maximum_and_cancels_in_the_exponent() -> None:
    found = derivation("forgetting-attention")
    cancelled = next(step for step in found.steps if step.rule == "cancel")
    assert cancelled.condition == "GM[p] = CQ[p] + GMP[p], so CQ[p] cancels"
    assert found.cascade is not None
    assert "CQ" not in found.cascade.tensors


def test_an_additive_constant_costs_one_sum_of_values_for_all_queries() -> None:
    found = derivation("affine-scaled-attention")
    assert found.cascade is not None
    runs = [each for each in found.cascade.einsums if each.iterative_rank]
    assert [each for each in runs if set(each.output.ranks) == {"m1", "f"}]


def test_corrections_of_whole_exponents_are_powers_of_two() -> None:
    found = derivation("two-exponent-softmax")
    assert found.cascade is not None
    factors = [each.expression for each in found.cascade.einsums if each.name.startswith("CF")]
    assert factors
    for factor in factors:
        assert isinstance(factor, Operation) and factor.operator == "pow" and factor.operands[0] == Number(value=2.0)


def test_the_variance_runs_about_the_running_mean() -> None:
    found = derivation("layernorm-linear")
    assert found.check is not None
    # With raw moments 1e4 squared would swallow the variance in float32.
    assert found.check.max_relative_error_single < 1e-5
    assert any("MU'[t]" in step.condition for step in found.steps)


def test_what_has_one_pass_and_cannot_overflow_is_left_alone() -> None:
    for name in ("attention-1pass", "pedagogical-deferred"):
        found = derive(load_cascade(name))
        assert found.derived and not found.steps and found.cascade == load_cascade(name)


def test_a_sum_of_exponentials_that_is_a_result_itself_is_not_shifted() -> None:
    source = parse("cascade x\n  input X[p,m]\n  S[p] = exp(X[p,m])\n")
    assert stabilise(source, "m") == (source, ())


def test_each_element_of_a_sigmoid_is_left_unshifted() -> None:
    source = parse("cascade x\n  input X[p,m] V[m,f]\n  A[p,m] = 1 / (1 + exp(-X[p,m]))\n  O[p,f] = A[p,m] * V[m,f]\n")
    assert stabilise(source, "m") == (source, ())


def test_a_recurrence_that_needs_a_reduction_at_every_step_is_refused() -> None:
    source = parse(
        "cascade x\n  input X[p,m] H[i]\n  T[p,0] = 0\n  R[p,i,m] = relu(X[p,m] - T[p,i])\n  S[p,i] = R[p,i,m]\n"
        "  T[p,i+1] = T[p,i] + H[i] * S[p,i]\n  O[p] = T[p,I]\n"
    )
    found = derive(source, "m")
    assert (found.derived, found.passes_before, found.cascade) == (False, None, None)
    assert found.blocked[0].einsum == "R"


def test_a_partitioned_cascade_is_not_taken_for_a_plain_definition() -> None:
    found = derive(load_cascade("attention-2pass"))
    assert not found.derived and found.cascade is None
    assert found.blocked[0].einsum == "BQK"


# A wrong derivation never gets out.


def broken(name: str, change: Callable[[sp.Expr], sp.Expr]) -> None:
    source = load_plain(name)
    stable, _ = stabilise(source, "m")
    plan = make_plan(stable, "m")
    changed = 0
    for moment in plan.moments.values():
        if moment.corrections:
            moment.corrections = tuple(replace(each, factor=change(each.factor)) for each in moment.corrections)
            changed += 1
    assert changed
    check(source, stable, rewrite(plan, "running"), "m")


@pytest.mark.parametrize("name", ["attention-3pass", "nap", "self-adjust", "softpick"])
def test_a_wrong_correction_factor_is_caught(name: str) -> None:
    broken(name, lambda factor: factor)
    for change in (lambda factor: factor * sp.Rational(1001, 1000), lambda factor: -factor):
        with pytest.raises(SelfCheckError):
            broken(name, change)


def test_a_lost_correction_term_is_caught() -> None:
    source = load_plain("nap")
    plan = make_plan(source, "m")
    for moment in plan.moments.values():
        moment.corrections = moment.corrections[:1]
    with pytest.raises(SelfCheckError):
        check(source, source, rewrite(plan, "running"), "m")


# Algebra.


def algebra() -> tuple[Algebra, dict[str, sp.Symbol]]:
    known = Algebra()
    names = {"x": "X", "g": "G", "v": "V"}
    return known, {
        name: known.symbol(Access(tensor=tensor, indices=(Index.of("m"),) if name != "g" else ()))
        for name, tensor in names.items()
    }


def test_a_common_scale_leaves_maxima_only_where_it_is_positive() -> None:
    _, s = algebra()
    x, g = s["x"], s["g"]

    def moves(node: sp.Expr) -> bool:
        return bool(node.free_symbols) and node.free_symbols <= {g}

    positive = common_scale(sp.Max(sp.exp(x - g) - sp.exp(-g), 0), moves)
    assert positive is not None
    assert sp.simplify(positive[0] - sp.exp(-g)) == 0 and g not in positive[1].free_symbols
    assert common_scale(sp.Max(g * x, 0), moves) is None
    assert common_scale(sp.Max(x - g, 0), moves) is None


def test_a_product_of_sums_is_separated_into_the_fewest_moments() -> None:
    _, s = algebra()
    x, g, v = s["x"], s["g"], s["v"]
    found = parts((x - g) * v / (1 + g), lambda node: node.free_symbols <= {g})
    assert {part.inside: sp.simplify(part.outside * (1 + g)) for part in found} == {x * v: 1, v: -g}


# The command.


def test_the_command_prints_what_scripts_need(einrtl: Callable[..., Any]) -> None:
    done = einrtl("derive", "attention-naive", "--json", "--size", "M=4096", "--tile", "256")
    found = json.loads(done.out)
    assert done.code == 0
    assert (found["derived"], found["passes_before"], found["passes_after"]) == (True, 2, 1)
    assert found["max_relative_error"] < 1e-9
    assert (found["sizes"]["M"], found["sizes"]["M0"]) == (4096, 256)
    assert found["extra_operations"]["exp"] == 64 * 4096 // 256
    assert (found["blocking_einsum"], found["reason"]) == (None, None)
    assert parse(found["cascade"]).outputs == ("AV",)
    refused = json.loads(einrtl("derive", "clipped-softmax", "--json").out)
    assert (refused["derived"], refused["blocking_einsum"]) == (False, "A")
    assert "piecewise" in refused["reason"]


def test_the_command_prints_every_step_with_its_condition(einrtl: Callable[..., Any]) -> None:
    done = einrtl("derive", "attention-naive", "--steps")
    assert "1. shift (SN)" in done.out
    assert "because  exp(QK[p,m] - GM'[p]) = exp(QK[p,m] - GM[p]) * exp(GM[p] - GM'[p])" in done.out
    assert "to       AV[p,f] = AVP[p,f] / SD[p]" in done.out


def test_the_command_writes_a_cascade_that_the_other_commands_read(einrtl: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "found.ein"
    assert einrtl("derive", "attention-3pass", "--form", "split", "-o", path).code == 0
    analysed = json.loads(einrtl("passes", path, "--rank", "m", "--json").out)
    assert analysed["passes"] == 1


def test_several_cascades_give_a_table_and_a_list(einrtl: Callable[..., Any]) -> None:
    done = einrtl("derive", "softpick", "clipped-softmax")
    assert "1 of 2 have a 1-pass form, 1 of them derived." in done.out
    assert [each["name"] for each in json.loads(einrtl("derive", "softpick", "clipped-softmax", "--json").out)] == [
        "softpick",
        "clipped-softmax",
    ]


def test_every_plain_definition_is_expected_here() -> None:
    known: Mapping[str, object] = {**DERIVED, **REFUSED}
    assert set(plain_names()) == set(known)


def test_the_table_of_the_documentation_is_what_the_command_prints(einrtl: Callable[..., Any]) -> None:
    assert einrtl("derive", "--all", "--markdown").out.strip() in DOCUMENTATION.read_text(encoding="utf-8")


def test_the_steps_of_the_documentation_are_what_the_command_prints(einrtl: Callable[..., Any]) -> None:
    steps = einrtl("derive", "attention-naive", "--steps").out.partition("# Derived")[0]
    lines = "\n".join(line.rstrip() for line in steps.rstrip().splitlines())
    assert lines in DOCUMENTATION.read_text(encoding="utf-8")


def test_sizes_of_the_check_have_several_tiles_and_equal_extents() -> None:
    source = load_plain("forgetting-attention")
    found = derive(source)
    assert found.cascade is not None
    sizes = small_sizes(source, found.cascade, "m")
    assert sizes["P"] == sizes["M"] == sizes["K"] == 3 * sizes["M0"]
