"""The steps of a run, and how it tells an observer which one it is at."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

__all__ = ["OnStep", "Step"]


class Step(Enum):
    """What a run does, in order; the value is shown to people."""

    READ = "read model, cascades and scores"
    SCHEDULE = "search schedules"
    ANALYSE = "count passes and operations"
    EMIT = "generate Verilog"
    PREDICT = "predict bits, cycles and actions"
    BUILD = "build the simulator"
    SIMULATE = "simulate on real scores"
    COMPARE = "compare"
    REPORT = "write the report"


OnStep = Callable[[Step], None]
"""Called when a step begins."""
