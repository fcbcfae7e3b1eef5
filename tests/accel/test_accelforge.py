"""Cascades for AccelForge: the same Einsums, sizes and names; what it cannot say is refused with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from accel.accelforge import accelforge_workload
from accel.cascade import cascade_names, load_cascade
from accel.errors import InputError
from accel.workload import Workload
from tests.conftest import ROOT, Finished

GROUPED = Workload(name="w", batch=2, heads=8, kv_heads=4, queries=6, keys=9, query_key_dim=4, value_dim=5)
CONFIG = ROOT / "examples" / "models" / "bert-base-uncased" / "config.json"


def test_the_three_pass_form_as_its_user_would_write_it() -> None:
    text = accelforge_workload(load_cascade("attention-3pass"), GROUPED, width_bits=8)
    content = yaml.safe_load(text)
    workload = content["workload"]
    assert workload["rank_sizes"] == {"H": 8, "P": 12, "M": 9, "E": 4, "F": 5}
    assert workload["bits_per_value"] == {"All": 8}
    assert [(each["einsum"], each["renames"]["input"], each["renames"]["weight"]) for each in workload["einsums"]] == [
        ("QK[h, p, m] = Q[h, p, e] * K[h, m, e]", "Q", "K"),
        ("GM[h, p] = QK[h, p, m]", "QK", "Nothing"),
        ("SN[h, p, m] = QK[h, p, m] * GM[h, p]", "QK", "Nothing"),
        ("SD[h, p] = SN[h, p, m]", "SN", "Nothing"),
        ("A[h, p, m] = SN[h, p, m] * SD[h, p]", "SN", "Nothing"),
        ("AV[h, p, f] = A[h, p, m] * V[h, m, f]", "A", "V"),
    ]
    assert "#   GM[p] = QK[p,m] :: max[m]" in text.splitlines()


@pytest.mark.parametrize("name", cascade_names())
def test_every_packaged_cascade_is_written_or_refused_with_its_place(name: str) -> None:
    cascade = load_cascade(name)
    sizes = {rank.upper(): 4 for einsum in cascade.einsums for rank in einsum.ranks}
    try:
        content = yaml.safe_load(accelforge_workload(cascade, GROUPED, sizes=sizes))
    except InputError as error:
        assert f"{name}.ein:" in str(error) and "must be one that AccelForge can say, but" in str(error)
    else:
        names = [each["einsum"].split("[")[0] for each in content["workload"]["einsums"]]
        assert names == [einsum.name for einsum in cascade.einsums]


def test_a_rank_named_h_does_not_meet_that_of_heads() -> None:
    cascade = load_cascade("rela")
    ranks = yaml.safe_load(accelforge_workload(cascade, GROUPED, sizes={"H": 3, "D": 4}))["workload"]["rank_sizes"]
    assert (ranks["H"], ranks["B"]) == (3, 8)


def test_the_command_writes_what_the_function_returns(tmp_path: Path, einrtl: Callable[..., Finished]) -> None:
    printed = einrtl("export", "attention-3pass", CONFIG, "--length", "64")
    assert printed.code == 0
    written = einrtl("export", "attention-3pass", CONFIG, "--length", "64", "-o", tmp_path / "w.yaml")
    assert (written.code, written.out) == (0, f"Wrote {tmp_path / 'w.yaml'}\n")
    assert (tmp_path / "w.yaml").read_text(encoding="utf-8") == printed.out


REFUSALS = {
    "a running value": (
        ["attention-1pass"],
        (
            "attention-1pass.ein:7:3: cascade attention-1pass: Einsum RM must be one that AccelForge can say, "
            "but it is a "
            "step of a running value; export a form without running values, such as attention-3pass"
        ),
    ),
    "a partitioned index": (
        ["attention-2pass"],
        (
            "attention-2pass.ein:7:3: cascade attention-2pass: Einsum BQK must be one that AccelForge can say, "
            "but K has "
            "the index m1*M0+m0; export a form whose indices are plain ranks"
        ),
    ),
    "a filter": (
        ["prmsnorm"],
        (
            "prmsnorm.ein:12:3: cascade prmsnorm: Einsum SS must be one that AccelForge can say, but it has the filter "
            "d < K; export the cascade without masks"
        ),
    ),
    "a rank without a size": (
        ["gelu"],
        "cascade gelu: rank n must have a size, but only P, M, E, F have; add --size N=SIZE",
    ),
    "a folder that is not there": (
        ["attention-3pass", "-o", "no/w.yaml"],
        "no/w.yaml must be writable: No such file or directory; check the folder",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_written_is_refused(
    case: str, einrtl: Callable[..., Finished], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (cascade, *options), message = REFUSALS[case]
    finished = einrtl("export", cascade, CONFIG, *options)
    assert (finished.code, finished.out) == (2, "")
    assert finished.err.splitlines()[0] == f"error: {message}"
