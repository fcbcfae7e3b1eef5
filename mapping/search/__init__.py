"""Searching schedules: the best tile sizes of a plan, and the best plan; docs/search.md states the spaces exactly."""

from mapping.search.api import front, map_space, search
from mapping.search.certificate import Dimension, Floor, Front, Objective, SearchResult
from mapping.search.engine import Progress
from mapping.search.mapspace import OUTSIDE, Limits
from mapping.search.sizes import Branch, floors, space

__all__ = [
    "OUTSIDE",
    "Branch",
    "Dimension",
    "Floor",
    "Front",
    "Limits",
    "Objective",
    "Progress",
    "SearchResult",
    "floors",
    "front",
    "map_space",
    "search",
    "space",
]
