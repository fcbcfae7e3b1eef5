"""Predicts the FPGA cost of a block from its description, by coefficients fitted to committed samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.errors import InputError, did_you_mean
from accel.fpga.features import features, model_name
from accel.fpga.fit import leave_one_out, non_negative_least_squares
from accel.fpga.samples import QUANTITIES, Sample
from accel.presets import load_preset

__all__ = ["CostModel", "FamilyModel", "Prediction", "QuantityModel", "fit_model", "load_model"]

RELATIVE = ("lut_count", "ff_count")
"""Quantities whose relative error is made small; of the others, which are few, the absolute one."""

FEWEST_SAMPLES = 6


@dataclass(frozen=True, kw_only=True)
class QuantityModel:
    """One quantity of a family.

    Parameters
    ----------
    coefficients : mapping of str to float
        Of each feature that counts; none is negative.
    mean_error, worst_error : float
        Of predicting each sample from all others, as a share of its value; of quantities that are few, in units.
    """

    coefficients: Mapping[str, float]
    mean_error: float
    worst_error: float

    __pydantic_config__ = {"extra": "forbid"}

    def predict(self, found: Mapping[str, float]) -> float:
        """Return the quantity for the features ``found``."""
        return sum(factor * found[name] for name, factor in self.coefficients.items())


@dataclass(frozen=True, kw_only=True)
class FamilyModel:
    """All quantities of units of one structure, and where they were fitted.

    Parameters
    ----------
    units : tuple of str
        Units that the samples are of.
    sample_count : int
        Samples of the fit.
    lowest, highest : mapping of str to float
        Range of each feature over the samples.
    quantities : mapping of str to QuantityModel
        Models of ``QUANTITIES``.
    """

    units: tuple[str, ...]
    sample_count: int
    lowest: Mapping[str, float]
    highest: Mapping[str, float]
    quantities: Mapping[str, QuantityModel]

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a model says of a block.

    Parameters
    ----------
    counts : mapping of str to float
        Of each of ``QUANTITIES``.
    mean_error : mapping of str to float
        As the model found it on its samples.
    extrapolated : tuple of str
        Features that lie outside the samples' range; empty if the prediction lies inside.
    """

    counts: Mapping[str, float]
    mean_error: Mapping[str, float]
    extrapolated: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """The fitted model of one target.

    Parameters
    ----------
    target : str
        FPGA family.
    source : str
        Tools of the samples.
    families : mapping of str to FamilyModel
        Models by family, or by unit where a family's units differ in structure.
    """

    target: str
    source: str
    families: Mapping[str, FamilyModel]

    __pydantic_config__ = {"extra": "forbid"}

    def predict(self, unit: str, family: str, description: Mapping[str, Any]) -> Prediction:
        """Return the cost of a block.

        Parameters
        ----------
        unit, family : str
            Of the block.
        description : mapping
            Its sidecar.

        Raises
        ------
        InputError
            There are no samples, or too few, of the unit.
        """
        model = self.families.get(model_name(unit, family))
        if model is None or unit not in model.units:
            known = sorted(name for each in self.families.values() for name in each.units)
            raise InputError(
                f"a prediction needs a unit with a model on {self.target}, and {unit!r} has none",
                hint=f"{did_you_mean(unit, known)} or synthesise it, without --predict",
            )
        found = features(model_name(unit, family), description)
        outside = tuple(name for name, value in found.items() if not model.lowest[name] <= value <= model.highest[name])
        return Prediction(
            counts={name: each.predict(found) for name, each in model.quantities.items()},
            mean_error={name: each.mean_error for name, each in model.quantities.items()},
            extrapolated=outside,
        )


def load_model(target: str) -> CostModel:
    """Return the committed model of a target.

    Raises
    ------
    InputError
        There is none.
    """
    return load_preset(CostModel, "fpga", target, what="a target with a fitted cost model")


def fit_model(target: str, samples: Iterable[Sample]) -> CostModel:
    """Return the model that the samples for fitting give; units with fewer than six get none."""
    fitting = [sample for sample in samples if sample.use == "fit"]
    families: dict[str, list[Sample]] = {}
    for sample in fitting:
        families.setdefault(model_name(sample.unit, sample.family), []).append(sample)
    return CostModel(
        target=target,
        source=", ".join(sorted({tool for sample in fitting for tool in sample.tools.split(", ")})),
        families={name: _fit(each) for name, each in sorted(families.items()) if len(each) >= FEWEST_SAMPLES},
    )


def _fit(samples: list[Sample]) -> FamilyModel:
    found = [features(model_name(sample.unit, sample.family), sample.description) for sample in samples]
    names = list(found[0])
    matrix = np.array([[each[name] for name in names] for each in found])
    quantities = {}
    for quantity in QUANTITIES:
        value = np.array([sample.counts[quantity] for sample in samples])
        weight = 1 / np.maximum(value, 1) if quantity in RELATIVE else np.ones_like(value)
        x = non_negative_least_squares(matrix * weight[:, None], value * weight)
        error = np.abs(leave_one_out(matrix * weight[:, None], value * weight) - value * weight)
        quantities[quantity] = QuantityModel(
            coefficients={name: float(f"{factor:.6g}") for name, factor in zip(names, x, strict=True) if factor > 0},
            mean_error=float(f"{error.mean():.4g}"),
            worst_error=float(f"{error.max():.4g}"),
        )
    return FamilyModel(
        units=tuple(sorted({sample.unit for sample in samples})),
        sample_count=len(samples),
        lowest={name: float(low) for name, low in zip(names, matrix.min(axis=0), strict=True)},
        highest={name: float(high) for name, high in zip(names, matrix.max(axis=0), strict=True)},
        quantities=quantities,
    )
