"""Sweeps: many designs scheduled for many workloads, in parallel, into one file that survives any interruption."""

from mapping.sweep.evaluation import Outcome, evaluate
from mapping.sweep.export import mark_fronts, write_csv, write_parquet
from mapping.sweep.plan import Description, Point, SweepPlan, load_plan
from mapping.sweep.run import Progress, run_sweep
from mapping.sweep.runners import DaskRunner, InProcessRunner, ProcessRunner, Runner
from mapping.sweep.store import Store

__all__ = [
    "DaskRunner",
    "Description",
    "InProcessRunner",
    "Outcome",
    "Point",
    "ProcessRunner",
    "Progress",
    "Runner",
    "Store",
    "SweepPlan",
    "evaluate",
    "load_plan",
    "mark_fronts",
    "run_sweep",
    "write_csv",
    "write_parquet",
]
