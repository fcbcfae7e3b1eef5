"""What the softmax family makes of random rows: errors, row sums and the place of the largest weight.

    .venv/bin/python benchmarks/softmax_quality.py [--rows 200]

For each unit with its default formats and each row length, over rows of normal scores of standard deviation 1, 2 and 4:
the largest and mean distance of a weight from the exact softmax of the quantized scores, with the bound of the
contract; the largest distance of a row's sum from the exact sum (1 but for the last three units), with its bound; the
share of rows in which no weight is above that of the largest score, and in which the first largest weight stands in the
exact place. ``rounded`` is the exact softmax, each weight rounded to 16 bits alone: what the format itself costs.
Sigmoid attention has the bias -ln N, ReLU attention the divisor N.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.numerics import FixedPoint
from rtl.registry import find_unit
from sim.golden.softmax_family import exact_row, golden_rows

LENGTHS = (128, 1024, 4096)
DEVIATIONS = (1.0, 2.0, 4.0)
UNITS = (
    *("softmax", "two-pass-softmax", "online-softmax", "softermax", "integer-softmax", "log2-softmax"),
    *("softpick", "sigmoid-attention", "relu-attention"),
)
Reals = NDArray[np.float64]


def units(length: int) -> Iterator[tuple[str, Any]]:
    """The units with rows of ``length`` scores."""
    of_length = {"sigmoid-attention": {"bias": -math.log(length)}, "relu-attention": {"divisor": float(length)}}
    for name in UNITS:
        unit = replace(find_unit(name).default, max_length=length, **of_length.get(name, {}))
        yield name, unit
        if name == "softmax":
            yield "softmax, rounded alone", replace(unit, keep_row_sum=False)


def weights(unit: Any, rows: list[NDArray[np.int64]]) -> Reals:
    """The weights of a unit as numbers."""
    codes = np.stack([answer.codes for answer in golden_rows(unit, rows)])
    if unit.name == "log2-softmax":
        return np.where(codes == unit.output_format.max_code, 0.0, 2.0**-codes)
    return np.asarray(unit.output_format.to_real(codes), np.float64)


def show(name: str, length: int, got: Reals, exact: Reals, bounds: tuple[str, str]) -> None:
    """Print one line."""
    error = np.abs(got - exact)
    best = np.take_along_axis(got, exact.argmax(axis=1)[:, None], axis=1)[:, 0]
    held, same = (best == got.max(axis=1)).mean(), (got.argmax(axis=1) == exact.argmax(axis=1)).mean()
    sums = np.abs(got.sum(axis=1) - exact.sum(axis=1)).max()
    print(
        f"{name:24}{length:6}  {error.max():9.2e} ({bounds[0]:>8})  {error.mean():9.2e}"
        f"  {sums:9.2e} ({bounds[1]:>8})  {held:7.2%}  {same:7.2%}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200, help="rows for each standard deviation")
    count = parser.parse_args().rows
    format_ = FixedPoint.parse("u16f16,nearest_even,saturate")
    heads = ("unit", "N", "max error (bound)", "mean", "row sum - exact (bnd)", "no above", "same")
    print("{:24}{:>6}  {:20}  {:9}  {:20}  {:>8}  {:>6}".format(*heads))
    for length in LENGTHS:
        random = np.random.default_rng(length)
        scores = np.concatenate([random.normal(0, deviation, (count, length)) for deviation in DEVIATIONS])
        for name, unit in units(length):
            rows = list(unit.input_format.quantize(scores))
            exact = np.stack([exact_row(unit, row) for row in rows])
            if name == "softmax":
                show("rounded", length, format_.to_real(format_.quantize(exact)), exact, ("", ""))
            quality = unit.quality
            bounds = (f"{quality.max_error:.2e}", f"{quality.row_sum_error:.2e}")
            show(name, length, weights(unit, rows), exact, bounds)


if __name__ == "__main__":
    main()
