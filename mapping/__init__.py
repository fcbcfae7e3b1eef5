"""Analysis of cascades, and the schedules that run them best."""

from mapping.derive import Derivation, derive
from mapping.explain import Explanation, explain
from mapping.model import price
from mapping.passes import PassAnalysis, passes
from mapping.search import Front, Limits, SearchResult, front, map_space, search

__all__ = [
    "Derivation",
    "Explanation",
    "Front",
    "Limits",
    "PassAnalysis",
    "SearchResult",
    "derive",
    "explain",
    "front",
    "map_space",
    "passes",
    "price",
    "search",
]
