"""The root command: version, help, listings, completion, and how errors end."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable
from importlib.metadata import entry_points, version

import pytest

import accel.cli
from accel.errors import EinRTLError, InputError, Problem, SimulationError, ToolMissingError, did_you_mean
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
        (ToolMissingError("make must be installed"), 3, "error: make must be installed\n"),
        (SimulationError("it hangs"), 1, "error: it hangs\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "out/result.json"),
            2,
            "error: out/result.json: No space left on device; free some space, or write to another disk\n",
        ),
        (OSError("no code"), 2, "error: no code; see --verbose for where it happened\n"),
        (
            KeyError("m0"),
            4,
            (
                "error: a fault of EinRTL itself, KeyError: 'm0'; "
                "please report it with what the same command prints with --verbose\n"
            ),
        ),
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
    assert {cls.exit_code for cls in (EinRTLError, InputError, ToolMissingError, SimulationError)} == {1, 2, 3}


def test_every_command_takes_the_common_options(einrtl: Command) -> None:
    for point in entry_points(group=accel.cli.COMMAND_GROUP):
        shown = einrtl(point.name, "--help").out
        assert "--quiet" in shown and "--verbose" in shown, point.name


def test_quiet_prints_nothing_but_json(einrtl: Command) -> None:
    assert einrtl("list", "architectures", "--quiet").out == ""
    assert einrtl("-q", "list", "architectures").out == ""
    assert json.loads(einrtl("list", "architectures", "--quiet", "--json").out)


def test_quiet_keeps_errors(einrtl: Command) -> None:
    finished = einrtl("list", "architecture", "--quiet")
    assert (finished.code, finished.out) == (2, "")
    assert finished.err == "error: a kind to list must be known, not 'architecture'; did you mean 'architectures'?\n"


def test_verbose_says_versions_and_time_and_where_an_error_arose(einrtl: Command) -> None:
    assert re.search(
        rf"einrtl {re.escape(version('einrtl'))}, Python 3.*: \d+\.\d\d s, exit code 0\n", einrtl("-v", "list").err
    )
    failed = einrtl("list", "nonsense", "--verbose").err
    assert "Traceback" in failed and "in list_command" in failed and "exit code 2" in failed


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ([], "none is known"),
        (["m0", "p0"], "known: m0, p0"),
        ([f"n{index:02}" for index in range(24)], "known: " + ", ".join(f"n{index:02}" for index in range(24))),
        (
            [f"n{index:02}" for index in range(25)],
            "known: " + ", ".join(f"n{index:02}" for index in range(12)) + " and 13 more",
        ),
        (["latency", "energy"], "did you mean 'latency'?"),
    ],
)
def test_a_wrong_name_gets_the_nearest_or_some_of_the_right_ones(names: list[str], hint: str) -> None:
    assert did_you_mean("latenci", names) == hint


def test_progress_is_silent_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with accel.cli.progress("work", total=2) as advance:
        advance(1, "")
    assert capsys.readouterr() == ("", "")
