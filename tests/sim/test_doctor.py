"""``einrtl doctor``: says what is there and what is not, and how to get it."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import sim.cli.doctor
from sim.doctor import EXTRAS, Check, diagnose, libraries, programs
from tests.conftest import Finished

Command = Callable[..., Finished]


def test_this_machine_can_simulate(einrtl: Command) -> None:
    finished = einrtl("doctor")
    assert finished.code == 0
    assert finished.out.endswith("Everything needed is there.\n")


def test_json_holds_every_check(einrtl: Command) -> None:
    found = json.loads(einrtl("doctor", "--json").out)
    assert found["healthy"] is True
    assert {check["name"] for check in found["checks"]} == {check.name for check in diagnose()}


def test_every_declared_library_is_checked_and_every_extra_has_a_purpose() -> None:
    declared = [Requirement(line) for line in requires("einrtl") or ()]
    assert {check.name for check in libraries()} == {need.name for need in declared} - {"einrtl"}
    for need in declared:
        assert need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in EXTRAS), str(need)


def test_programs_that_are_not_on_the_path_are_missing_with_a_way_to_get_them() -> None:
    found = {check.name: check for check in programs(search_path="")}
    assert not any(check.good for check in found.values())
    assert found["make"].remedy == "apt install make"
    assert found["make"].required and not found["ccache"].required


def test_a_program_that_does_not_run_is_not_there(tmp_path: Path) -> None:
    broken, silent = tmp_path / "make", tmp_path / "c++"
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    silent.write_text("#!/bin/sh\n", encoding="utf-8")
    for program in (broken, silent):
        program.chmod(0o755)
    found = {check.name: check for check in programs(search_path=str(tmp_path))}
    assert (found["make"].found, found["make"].good) == (None, False)
    assert (found["c++"].found, found["c++"].good) == ("present", True)


def check(name: str, *, required: bool, found: str | None) -> Check:
    return Check(
        name=name, purpose="tests", required=required, found=found, wanted=">=2", good=False, remedy=f"get {name}"
    )


@pytest.mark.parametrize(("required", "code"), [(True, 3), (False, 0)])
def test_only_what_is_needed_fails(required: bool, code: int, einrtl: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = (check("a", required=required, found=None), check("b", required=required, found="1"))
    monkeypatch.setattr(sim.cli.doctor, "diagnose", lambda: missing)
    finished = einrtl("doctor")
    assert finished.code == code
    assert "  a: get a\n  b: get b\n" in finished.out
    assert ("Something needed is missing." in finished.out) is required
    assert "missing" in finished.out and "other version" in finished.out
    assert json.loads(einrtl("doctor", "--json").out)["healthy"] is not required
