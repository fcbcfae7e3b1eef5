"""Exponentials by polynomial: what they compute, how exactly, and what they are charged."""

import math

import numpy as np
import pytest

from accel.arch import load_architecture
from accel.arithmetic import Arithmetic
from accel.cascade import load_cascade
from accel.errors import InputError
from accel.evaluate import evaluate
from accel.polynomial_exp import LEAST, Base, Counting, PolynomialExp

PAPER = PolynomialExp(base=Base.E, degree=5)
ALL = [PolynomialExp(base=base, degree=degree) for base in Base for degree in range(1, 9)]


def truth(exponential: PolynomialExp, x: np.ndarray) -> np.ndarray:
    return np.exp2(x) if exponential.base is Base.TWO else np.exp(x)


@pytest.mark.parametrize("exponential", ALL, ids=lambda each: each.name)
def test_in_float64_the_error_is_that_of_the_polynomial(exponential: PolynomialExp) -> None:
    compute = exponential.function(Arithmetic.of("float64"))
    x = np.linspace(-30.0, 5.0, 40_001)
    error = np.abs(compute(x) / truth(exponential, x) - 1).max()
    assert error <= exponential.polynomial_error * 1.001 + 1e-14


def test_base_2_has_the_least_error_that_a_polynomial_of_its_degree_can_have() -> None:
    """De la Vallee-Poussin: with degree + 2 alternating errors of at least d, none has a largest error below d."""
    for degree in range(1, 5):
        exponential = PolynomialExp(base=Base.TWO, degree=degree)
        f = np.linspace(-0.5, 0.5, 20_001)
        error = np.polynomial.polynomial.polyval(f, exponential.coefficients) / np.exp2(f) - 1
        lobes = np.split(error, np.flatnonzero(np.diff(np.sign(error))) + 1)
        assert len(lobes) == degree + 2
        assert min(np.abs(lobe).max() for lobe in lobes) == pytest.approx(exponential.polynomial_error, rel=1e-4)


def test_degree_2_is_within_one_and_a_half_units_in_the_last_place_of_bfloat16() -> None:
    """A unit is 2**-7 of the power of 2 below; every x that bfloat16 has in the range."""
    arithmetic = Arithmetic.of("bfloat16")
    codes = np.arange(0x3C00, 0x4270, dtype=np.uint32)  # 2**-7 to 60
    x = -(codes << 16).view(np.float32)
    found = PolynomialExp(base=Base.TWO, degree=2).function(arithmetic)(x).astype(np.float64)
    exact = np.exp2(x.astype(np.float64))
    unit = np.exp2(np.floor(np.log2(exact)) - 7)
    worst = (np.abs(found - exact) / unit).max()
    assert 0.5 < worst < 1.5


def test_far_below_the_result_is_zero_and_at_zero_it_is_one() -> None:
    for exponential in ALL:
        compute = exponential.function(Arithmetic.of("bfloat16"))
        unit = 1.0 if exponential.base is Base.TWO else math.log(2)
        assert not compute(np.array([-np.inf, 2 * LEAST * unit, LEAST * unit - 1], dtype=np.float32)).any()
        assert compute(np.zeros(1, dtype=np.float32))[0] == pytest.approx(1, abs=exponential.polynomial_error + 2**-8)


def test_the_exponential_of_the_paper_is_charged_as_its_architecture_says() -> None:
    for array in load_architecture("fusemax-cloud").arrays.values():
        assert PAPER.operator(Counting.PAPER) == array.operators["exp"]


def test_every_action_that_is_charged_takes_a_cycle() -> None:
    for exponential in ALL:
        for counting in Counting:
            operator = exponential.operator(counting)
            assert operator.cycles == sum(operator.actions.values())
        paper, everything = (exponential.operator(counting).cycles for counting in (Counting.PAPER, Counting.ALL))
        assert everything == paper + 4


@pytest.mark.parametrize("degree", [0, 9, -1])
def test_a_degree_out_of_range_is_refused(degree: int) -> None:
    with pytest.raises(InputError, match=rf"^degree must be 1 to 8, not {degree}$"):
        PolynomialExp(base=Base.TWO, degree=degree)


def test_an_evaluation_takes_another_exponential() -> None:
    cascade = load_cascade("softmax-naive")
    x = np.linspace(-2, 2, 12).reshape(3, 4)
    (name,) = (tensor.name for tensor in cascade.inputs)
    sizes = dict(zip((rank.upper() for rank in cascade.inputs[0].ranks), x.shape, strict=True))
    (folded,) = evaluate(cascade, {name: x * math.log2(math.e)}, sizes, operators={"exp": np.exp2}).values()
    (plain,) = evaluate(cascade, {name: x}, sizes).values()
    (other,) = evaluate(cascade, {name: x}, sizes, operators={"exp": np.exp2}).values()
    np.testing.assert_allclose(folded, plain, rtol=1e-12)
    assert np.abs(other - plain).max() > 0.01
