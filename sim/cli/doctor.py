"""``einrtl doctor``: what is installed, and how to get what is not."""

from __future__ import annotations

from dataclasses import asdict

import click

from accel.cli import EXIT_TOOL_MISSING, console, json_option, print_json, table
from sim.doctor import Check, diagnose

__all__ = ["doctor"]


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Check tools and libraries and say how to get those that are missing.

    Exits 3 if one is missing, or too old, that the main commands need.
    """
    found = diagnose()
    bad = [check for check in found if check.required and not check.good]
    if as_json:
        print_json({"healthy": not bad, "checks": [asdict(check) for check in found]})
    else:
        _show(found, bad)
    return EXIT_TOOL_MISSING if bad else 0


def _show(found: tuple[Check, ...], bad: list[Check]) -> None:
    out = console()
    rows = [(check.name, _state(check), check.found or "", check.wanted, check.purpose) for check in found]
    out.print(table("Tools and libraries", ("name", "state", "version", "wanted", "for"), rows))
    for title, checks in (
        ("Needed", bad),
        ("Optional", [check for check in found if not check.required and not check.good]),
    ):
        if checks:
            out.print(f"{title}, not there or of another version:")
            for remedy in dict.fromkeys(check.remedy for check in checks):
                names = ", ".join(check.name for check in checks if check.remedy == remedy)
                out.print(f"  {names}: {remedy}", markup=False)
    out.print("Something needed is missing." if bad else "Everything needed is there.")


def _state(check: Check) -> str:
    if check.good:
        return "good"
    state = "missing" if check.found is None else "other version"
    return state if check.required else f"{state} (optional)"
