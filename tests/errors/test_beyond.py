"""Wrong cases, design spaces and options, each with the exact text that a user sees."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from accel.cases import Case, CaseFile
from accel.codesign import load_design_space
from accel.configuration import load_study
from accel.errors import InputError
from accel.evaluate import evaluate
from accel.notation import parse
from accel.polynomial_exp import Base, Counting, PolynomialExp
from accel.workload import Workload
from mapping.beyond import Machine
from mapping.codesign import Codesign

SPACE = load_design_space("fusemax-area")
ACCURACY = SPACE.accuracy
WORKLOAD = Workload(name="step", batch=1, heads=1, kv_heads=1, queries=1, keys=8, query_key_dim=8, value_dim=8)
CASE = Case(workload=WORKLOAD, source="made up")
EXPONENTIAL = parse("cascade e\n  input X[p]\n  Y[p] = exp(X[p])\n")


def space(**changes):
    return dataclasses.replace(SPACE, **changes)


def accuracy(**changes):
    return dataclasses.replace(ACCURACY, **changes)


def codesign(**changes):
    return Codesign(load_study("published"), space(**changes), Counting.PAPER)


WRONG = {
    "a case without source": (
        lambda: Case(workload=WORKLOAD, source=" "),
        "source must name where the sizes come from, but is empty",
    ),
    "no case": (
        lambda: CaseFile(name="none", description="", cases=()),
        "cases must hold at least one case",
    ),
    "two cases of one name": (
        lambda: CaseFile(name="twice", description="", cases=(CASE, CASE)),
        "a case must have a name of its own, but 2 are called 'step'; rename all but one",
    ),
    "a polynomial of no degree": (
        lambda: PolynomialExp(base=Base.TWO, degree=0),
        "degree must be 1 to 8, not 0",
    ),
    "an operator that is none": (
        lambda: evaluate(EXPONENTIAL, {"X": [0.0]}, {"P": 1}, operators={"exq": np.exp2}),
        "no operator is called 'exq'; did you mean 'exp'?",
    ),
    "a tile that does not divide the keys": (
        lambda: accuracy(tile=100),
        "tile must divide keys = 512, but 100 does not",
    ),
    "no keys": (lambda: accuracy(keys=0), "keys must be positive, not 0"),
    "no deviation": (lambda: accuracy(score_deviations=()), "score_deviations must hold at least one number"),
    "a deviation of nothing": (
        lambda: accuracy(score_deviations=(1.0, 0.0)),
        "score_deviations must be positive, not 0.0",
    ),
    "a negative seed": (lambda: accuracy(seed=-1), "seed must be 0 or more, not -1"),
    "no exponential": (lambda: space(exponentials=()), "exponentials must hold at least one value"),
    "a buffer of no size": (lambda: space(buffer_bits=(0,)), "buffer_bits must be positive, not 0"),
    "columns in the wrong order": (
        lambda: space(least_columns=9, most_columns=8),
        "most_columns must be at least least_columns = 9, not 8",
    ),
    "a buffer whose energy is not known": (
        lambda: codesign(buffer_bits=(134217728, 268435456)),
        "buffer_bits must be at most 134217728 as in the reference design, not 268435456; leave out larger ones",
    ),
    "an array that is none": (
        lambda: codesign(array="3d"),
        "architecture 'fusemax-cloud' must have array '3d' of design space 'fusemax-area'; it has 2d, 1d",
    ),
    "a study without the schedule to compare with": (
        lambda: Machine.of(
            dataclasses.replace(load_study("published"), configurations=load_study("published").configurations[:2])
        ),
        "study 'published' must have a configuration '+Binding' to be compared with; it has Unfused, FLAT",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_description_is_refused_with_the_way_out(wrong: str) -> None:
    build, text = WRONG[wrong]
    with pytest.raises(InputError) as raised:
        build()
    assert str(raised.value) == text


COMMANDS = {
    "a list that is none": (
        ("reproduce", "beyond-paper", "--cases", "nothing"),
        "error: 'nothing' is not the name of a list of cases; known: paper-silent; a file needs its .yaml ending\n",
    ),
    "a space that is none": (
        ("reproduce", "fusemax-codesign", "--space", "nothing"),
        "error: 'nothing' is not the name of a design space; known: fusemax-area; a file needs its .yaml ending\n",
    ),
    "an option of another table": (
        ("reproduce", "beyond-paper", "--setting", "published"),
        "Error: --setting is for fusemax, fusemax-beyond, fusemax-codesign, not for beyond-paper; leave it out\n",
    ),
    "a budget without a search": (
        ("reproduce", "fusemax", "--budget", "1"),
        "Error: --budget is for fusemax-beyond, fusemax-codesign, beyond-paper, not for fusemax; leave it out\n",
    ),
    "a budget of nothing": (
        ("reproduce", "fusemax-beyond", "--budget", "0"),
        "Error: Invalid value for '--budget': 0.0 is not in the range x>0.\n",
    ),
    "neither workload nor table": (("map",), "Error: Missing argument 'WORKLOAD'.\n"),
    "workload and table": (
        ("map", "config.json", "--reproduce", "fusemax-beyond"),
        "Error: --reproduce takes --budget and --json alone; leave out WORKLOAD\n",
    ),
    "a table and an architecture": (
        ("map", "--reproduce", "fusemax-beyond", "--arch", "edge"),
        "Error: --reproduce takes --budget and --json alone; leave out --arch\n",
    ),
}


@pytest.mark.parametrize("wrong", COMMANDS)
def test_a_wrong_command_line_is_refused(einrtl, wrong: str) -> None:
    arguments, text = COMMANDS[wrong]
    ended = einrtl(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(text)


def test_a_case_file_is_refused_with_the_place_of_every_problem(einrtl, tmp_path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(
        "name: wrong\ndescription: d\ncases:\n"
        "  - workload: {name: a, batch: 0, heads: 1, kv_heads: 1, queries: 1, keys: 1, query_key_dim: 1,\n"
        "      value_dim: 1}\n"
        "    source: made up\n    speed: 1\n"
    )
    ended = einrtl("reproduce", "beyond-paper", "--cases", path)
    assert ended.code == 2
    first, second = ended.err.splitlines()
    assert first.endswith("cases.yaml:4:25: cases[0].workload: batch must be at least 1, not 0")
    assert second.endswith(
        "cases.yaml:7:5: 'cases[0].speed' is not a known key; known: architecture, cascade, source, workload"
    )
