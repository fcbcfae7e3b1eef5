"""All softmax and activation units on the same inputs, beside what they cost and what others published."""

from sim.comparison.activations import ActivationFigures, ErrorCurve, compare_activations, error_curves
from sim.comparison.costs import UnitCost, unit_costs
from sim.comparison.inputs import ScoreRows, random_scores, recorded_scores
from sim.comparison.page import length_section, page
from sim.comparison.published import PublishedFigure, load_published
from sim.comparison.weights import WeightFigures, compare_weights
from sim.comparison.wishes import Wish, check_wishes

__all__ = [
    "ActivationFigures",
    "ErrorCurve",
    "PublishedFigure",
    "ScoreRows",
    "UnitCost",
    "WeightFigures",
    "Wish",
    "check_wishes",
    "compare_activations",
    "compare_weights",
    "error_curves",
    "length_section",
    "load_published",
    "page",
    "random_scores",
    "recorded_scores",
    "unit_costs",
]
