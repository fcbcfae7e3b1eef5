"""Plain data about the work, the machine, the numbers and the schedule; the room that all others stand on."""

from accel.arch import Architecture, architecture_names, load_architecture
from accel.cascade import Cascade, Einsum, cascade_names, load_cascade, load_cascades
from accel.cost import CostTable
from accel.errors import InputError, ToolMissingError
from accel.evaluate import evaluate
from accel.notation import parse
from accel.numerics import FixedPoint
from accel.result import Result
from accel.schedule import Plan, Schedule
from accel.workload import AttentionModel, Workload, read_hugging_face_config
from accel.workload_file import read_workload

__all__ = [
    "Architecture",
    "AttentionModel",
    "Cascade",
    "CostTable",
    "Einsum",
    "FixedPoint",
    "InputError",
    "Plan",
    "Result",
    "Schedule",
    "ToolMissingError",
    "Workload",
    "architecture_names",
    "cascade_names",
    "evaluate",
    "load_architecture",
    "load_cascade",
    "load_cascades",
    "parse",
    "read_hugging_face_config",
    "read_workload",
]
