"""A real browser without a window, for tests of pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=2000",
)


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What a page became, and what it said on the console."""

    html: str
    console: tuple[str, ...]


def find_browser() -> str:
    """Return the browser; a test that has none is skipped and says so."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on the path: apt install chromium")
    return found


def open_page(path: Path, folder: Path, *, script: str = "") -> Opened:
    """Open a page, run ``script`` at its end, and return it; ``folder`` takes the browser's files."""
    page = folder / f"opened-{path.name}"
    added = f"<script>{script}</script>" if script else ""
    page.write_text(path.read_text(encoding="utf-8") + added, encoding="utf-8")
    done = subprocess.run(
        [find_browser(), *FLAGS, f"--user-data-dir={folder / 'browser'}", "--dump-dom", page.as_uri()],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    console = tuple(re.findall(r"INFO:CONSOLE[^\"]*\"(.*?)\", source", done.stderr))
    return Opened(html=done.stdout, console=console)
