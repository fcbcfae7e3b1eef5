"""What ``einrtl derive`` and ``mapping.derive`` say about wrong input: the whole text of every message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accel.cascade import load_cascade
from accel.errors import InputError
from accel.notation import parse
from mapping.derivation.check import SelfCheckError, check
from mapping.derive import derive

COMMANDS = {
    "no cascade": ((), "error: einrtl derive must be given a cascade; name one or more, or give --all\n"),
    "two cascades for one file": (
        ("softpick", "ssmax", "-o", "x.ein"),
        "error: -o must stand with one cascade, not 2; derive them one by one\n",
    ),
    "an unknown rank": (
        ("softpick", "--rank", "q"),
        "error: cascade softpick has no rank 'q'; known: f, m, p\n",
    ),
    "a size without a number": (
        ("softpick", "--size", "M=x"),
        "error: --size must be SYMBOL=NUMBER, not 'M=x'; write it as in --size M=4096\n",
    ),
    "an unknown size": (
        ("softpick", "--size", "MM=8"),
        "error: --size MM=8: cascade softpick has no size 'MM'; did you mean 'M'?\n",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_command_is_refused_with_the_way_out(name: str, einrtl: Callable[..., Any]) -> None:
    arguments, text = COMMANDS[name]
    done = einrtl("derive", *arguments)
    assert (done.code, done.out, done.err) == (2, "", text)


def test_there_is_nothing_to_write_where_nothing_is_derived(einrtl: Callable[..., Any], tmp_path: Path) -> None:
    done = einrtl("derive", "attention-2pass", "-o", tmp_path / "x.ein")
    assert (done.code, done.err) == (
        2,
        (
            "error: cascade attention-2pass has no derived form: BQK forbids it "
            "(BQK[p,m1,m0] partitions m already; a derivation starts from the plain definition); "
            "leave -o out to see more\n"
        ),
    )


def test_a_file_that_cannot_be_written_is_said(einrtl: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "none" / "x.ein"
    done = einrtl("derive", "softpick", "-o", path)
    assert (done.code, done.err) == (
        2,
        f"error: {path} must be writable: No such file or directory; check the folder\n",
    )


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        derive(load_cascade("attention-naive"), form="runing")
    assert str(caught.value) == "form must be one of running, split, not 'runing'; did you mean 'running'?"


def test_a_cascade_that_is_never_finite_cannot_be_checked() -> None:
    source = parse(
        "cascade x\n  input X[p,m] V[m,f]\n  S[p] = log(-1 - abs(X[p,m]))\n  O[p,f] = X[p,m] / S[p] * V[m,f]\n"
    )
    with pytest.raises(InputError) as caught:
        derive(source, "m")
    assert str(caught.value) == (
        "cascade x must give finite results on some random input, so that a derived form can be checked; look for a "
        "division by zero, or the logarithm of a negative number"
    )


def test_a_wrong_derivation_is_reported_as_a_bug() -> None:
    source = parse("cascade x\n  input X[p,m]\n  S[p] = X[p,m]\n")
    wrong = parse("cascade y\n  input X[p,m]\n  S[p] = 2 * X[p,m]\n")
    with pytest.raises(SelfCheckError) as caught:
        check(source, source, wrong, "m")
    assert str(caught.value) == (
        "derived cascade y must compute S as its source does, within 1.0e-09, but is 1.0e+00 off (inputs: random 0); a "
        "bug of the derivation: please report the source"
    )
    assert caught.value.exit_code == 1
