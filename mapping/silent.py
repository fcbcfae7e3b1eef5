"""Case files mapped: for each case the best schedule, how well it uses the arrays, and the bound that is proved."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from accel.arch import Architecture, load_architecture
from accel.cascade import load_cascade
from accel.cases import Case, CaseFile
from mapping.beyond import Advance, Clock
from mapping.search import Limits, SearchResult, search

__all__ = ["MappedCase", "map_cases"]


@dataclass(frozen=True, kw_only=True)
class MappedCase:
    """The best schedule of one case.

    Parameters
    ----------
    case : Case
        Which.
    architecture : Architecture
        What it runs on.
    found : SearchResult
        The schedule, its price and its certificate.
    wall_time_s : float
        Of the search.
    """

    case: Case
    architecture: Architecture
    found: SearchResult
    wall_time_s: float


def map_cases(
    file: CaseFile, *, budget_s: float | None = None, limits: Limits | None = None, advance: Advance | None = None
) -> Iterator[MappedCase]:
    """Yield the best schedule of each case, in the order of the file.

    Parameters
    ----------
    file : CaseFile
        The cases.
    budget_s : float, optional
        Seconds for all searches together; each gets an equal part of what is left.
    limits : Limits, optional
        Of each search.
    advance : callable, optional
        Called with the cases done and what comes next.

    Raises
    ------
    InputError
        As ``mapping.search.search``; a cascade or an architecture cannot be read.
    """
    problems = [(case, load_cascade(case.cascade), load_architecture(case.architecture)) for case in file.cases]
    clock = Clock(budget_s, len(problems))
    for done, (case, cascade, architecture) in enumerate(problems):
        if advance is not None:
            advance(done, case.workload.name)
        begin = time.perf_counter()
        found = search(cascade, architecture, case.workload, limits=clock.limits(limits or Limits()))
        yield MappedCase(case=case, architecture=architecture, found=found, wall_time_s=time.perf_counter() - begin)
