"""Formal checks of the stream rules: valid and payload hold, nothing is lost or duplicated, nothing hangs."""

from sim.formal.checker import RULES, StreamCheck
from sim.formal.prove import Verdict, check_design
from sim.formal.skeletons import SKELETONS, Skeleton, find_skeleton

__all__ = ["RULES", "SKELETONS", "Skeleton", "StreamCheck", "Verdict", "check_design", "find_skeleton"]
