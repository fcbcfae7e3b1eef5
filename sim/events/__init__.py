"""An event-level simulator: executes a schedule tile by tile, with real values, and counts what happens."""

from sim.events.failure import ExecutionError, Kind
from sim.events.machine import execute, random_inputs
from sim.events.report import Execution, differences

__all__ = ["Execution", "ExecutionError", "Kind", "differences", "execute", "random_inputs"]
