"""The documentation: code on its pages runs, commands on them exist, and the site builds without a warning."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from accel.cli.root import root

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts), ROOT / "README.md"]
GUIDE = sorted((DOCS / "guide").glob("*.md"))
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BUILT = ("index", "guide/first-steps", "reference/api/mapping.search", "notebooks/schedules")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path) -> list[tuple[str, str]]:
    return FENCE.findall(path.read_text(encoding="utf-8"))


def command_lines(text: str) -> Iterator[list[str]]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("einrtl "):
            yield shlex.split(line, comments=True)[1:]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working folder in which the examples are found."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", GUIDE, ids=lambda path: path.stem)
def test_everything_shown_in_a_guide_runs_in_its_order(path: Path, elsewhere: Path, einrtl: Callable[..., Any]) -> None:
    names: dict[str, Any] = {}
    for language, text in blocks(path):
        if language == "python":
            exec(compile(text, str(path), "exec"), names)
        if language == "sh":
            for arguments in command_lines(text):
                done = einrtl(*arguments)
                assert done.code == 0, (arguments, done.err)


def test_a_guide_shows_only_commands_that_the_tests_run() -> None:
    other = [
        (path.name, line)
        for path in GUIDE
        for language, text in blocks(path)
        if language == "sh"
        for line in text.splitlines()
        if not line.startswith("einrtl ")
    ]
    assert other == []


@pytest.mark.parametrize(
    "path",
    [path for path in PAGES if path not in GUIDE and any(language == "python" for language, _ in blocks(path))],
    ids=lambda path: path.stem,
)
def test_python_on_a_page_runs(path: Path, elsewhere: Path) -> None:
    code = "\n".join(text for language, text in blocks(path) if language == "python")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_on_a_page_exists_with_its_options(path: Path) -> None:
    for _, text in blocks(path):
        for arguments in command_lines(text):
            command: click.Command = root
            context = click.Context(root, info_name="einrtl")
            while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
                found = command.get_command(context, arguments[0])
                assert found is not None, arguments
                command, arguments = found, arguments[1:]
                context = click.Context(command, parent=context, info_name=command.name, **command.context_settings)
            if not context.ignore_unknown_options:
                command.make_parser(context).parse_args(list(arguments))  # raises NoSuchOption


def test_no_page_is_left_out_of_the_contents() -> None:
    listed = set()
    for index in DOCS.rglob("index.md"):
        for text in TOCTREE.findall(index.read_text(encoding="utf-8")):
            for entry in text.splitlines():
                if entry and not entry.startswith(":"):
                    listed |= {path.relative_to(DOCS) for path in index.parent.glob(f"{entry}.*")}
    pages = {path.relative_to(DOCS) for path in PAGES if path.is_relative_to(DOCS) and path.name != "index.md"}
    assert pages - listed == set()


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the documentation needs the extra 'docs'")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path / "site")],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr  # the kernels of notebooks log to stderr
    for page in BUILT:
        assert (tmp_path / "site" / f"{page}.html").is_file()
    outside = re.compile(r"""(?:src|href)=["'](?:https?:)?//[^"']*\.(?:js|css|woff2?)""")
    loaded = [path for path in (tmp_path / "site").rglob("*.html") if outside.search(path.read_text(encoding="utf-8"))]
    assert loaded == [], "a page loads from the network"
