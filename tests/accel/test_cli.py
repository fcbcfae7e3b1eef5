"""The root command: version, help, listings, completion, and how errors end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import entry_points, version

import pytest

import accel.cli
from accel.errors import EinRTLError, InputError, Problem, SimulationError, ToolMissingError
from tests.conftest import Finished

Command = Callable[..., Finished]


def test_the_version_is_that_of_the_distribution(einrtl: Command) -> None:
    finished = einrtl("--version")
    assert (finished.code, finished.out) == (0, f"einrtl, version {version('einrtl')}\n")


def test_help_lists_every_installed_command_with_a_line(einrtl: Command) -> None:
    finished = einrtl("--help")
    assert finished.code == 0
    for point in entry_points(group=accel.cli.COMMAND_GROUP):
        assert re.search(rf"^  {point.name} +\S", finished.out, re.MULTILINE), point.name


@pytest.mark.parametrize("kind", [point.name for point in entry_points(group=accel.cli.LISTING_GROUP)])
def test_every_kind_is_listed_for_people_and_as_json(kind: str, einrtl: Command) -> None:
    shown, data = einrtl("list", kind), einrtl("list", kind, "--json")
    assert (shown.code, data.code) == (0, 0)
    rows = json.loads(data.out)
    assert rows
    assert all(row["name"] in shown.out for row in rows)


def test_without_a_kind_everything_is_listed(einrtl: Command) -> None:
    kinds = {point.name for point in entry_points(group=accel.cli.LISTING_GROUP)}
    assert set(json.loads(einrtl("list", "--json").out)) == kinds
    assert kinds <= set(einrtl("list").out.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_completion_script(shell: str, einrtl: Command) -> None:
    finished = einrtl("completion", shell)
    assert finished.code == 0
    assert "_EINRTL_COMPLETE" in finished.out


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InputError("lanes must be 1, not 2", hint="use 1"), 2, "error: lanes must be 1, not 2; use 1\n"),
        (
            InputError.of([Problem(message="one"), Problem(message="two", excerpt="  x = y\n      ^")]),
            2,
            "error: one\nerror: two\n  x = y\n      ^\n",
        ),
        (ToolMissingError("make must be installed"), 2, "error: make must be installed\n"),
        (SimulationError("it hangs"), 1, "error: it hangs\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_an_error_ends_in_its_message_and_code(
    error: BaseException, code: int, text: str, einrtl: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> list[dict[str, str]]:
        raise error

    points = [point for point in entry_points(group=accel.cli.LISTING_GROUP) if point.name == "units"]
    monkeypatch.setattr(type(points[0]), "load", lambda self: failing)
    finished = einrtl("list", "units")
    assert (finished.code, finished.out, finished.err.lstrip("\n")) == (code, "", text)


def test_every_error_class_has_an_exit_code_that_is_not_success() -> None:
    assert {cls.exit_code for cls in (EinRTLError, InputError, ToolMissingError, SimulationError)} == {1, 2}
