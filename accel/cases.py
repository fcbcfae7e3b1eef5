"""Case files: attention problems to map one after the other, each on an architecture of its choice; plain data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from accel.errors import InputError
from accel.presets import load_preset, preset_names
from accel.workload import Workload

__all__ = ["Case", "CaseFile", "case_file_names", "load_case_file"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One problem.

    Parameters
    ----------
    workload : Workload
        Sizes; its name is that of the case.
    source : str
        Where the sizes come from.
    cascade : str
        Name or file.
    architecture : str
        Name or file.

    Raises
    ------
    InputError
        No source is named.
    """

    workload: Workload
    source: str
    cascade: str = "attention-1pass"
    architecture: str = "fusemax-cloud"

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the source."""
        if not self.source.strip():
            raise InputError("source must name where the sizes come from, but is empty", field=("source",))


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    """Several problems.

    Parameters
    ----------
    name, description : str
        What reports call the list, and what it stands for.
    cases : tuple of Case
        In the order of the report.

    Raises
    ------
    InputError
        There is no case, or two have the same name.
    """

    name: str
    description: str
    cases: tuple[Case, ...]

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check that there are cases, and their names."""
        if not self.cases:
            raise InputError("cases must hold at least one case", field=("cases",))
        counts = Counter(each.workload.name for each in self.cases)
        for name, count in counts.items():
            if count > 1:
                raise InputError(
                    f"a case must have a name of its own, but {count} are called {name!r}",
                    hint="rename all but one",
                    field=("cases",),
                )


def load_case_file(name_or_path: str | Path) -> CaseFile:
    """Return a packaged list of cases by name, or the one of a file; raises ``InputError`` as ``load_preset``."""
    return load_preset(CaseFile, "cases", name_or_path, what="a list of cases")


def case_file_names() -> tuple[str, ...]:
    """Return the names of the packaged lists of cases."""
    return preset_names("cases")
