"""The area of swept designs: from the cost table where it has all parts, and empty where it has not."""

import pytest

from accel.cost import load_cost_table
from mapping.sweep.evaluation import evaluate
from mapping.sweep.plan import load_plan
from tests.mapping.sweeping import MODEL

SWEEP = """\
name: area
architectures:
  - base: {base}
    vary:
      - {{fields: [arrays.2d.rows, arrays.2d.columns, arrays.1d.columns], values: [8, 16]}}
{more}workloads:
  - {{model: {model}, lengths: [16]}}
"""


def areas(tmp_path, base, more=""):
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP.format(base=base, model=MODEL, more=more), encoding="utf-8")
    outcomes = [evaluate(point) for point in load_plan(path).grid()]
    assert [outcome.reason for outcome in outcomes] == [None] * len(outcomes)
    return [outcome.values["area_mm2"] for outcome in outcomes]


def test_a_swept_array_has_the_area_of_its_pes_and_buffer(tmp_path):
    costs = load_cost_table("fusemax-45nm")
    two = sum(costs.area_um2(part) for part in ("registers-12", "mac-fp16", "max-fp16"))
    one = sum(costs.area_um2(part) for part in ("registers-32", "mac-fp16", "max-fp16", "divide-fp16"))
    expected = [(side**2 * two + side * one + costs.area_um2("sram-16MiB")) / 1e6 for side in (8, 16)]
    assert areas(tmp_path, "fusemax-cloud") == pytest.approx(expected, rel=1e-12)


def test_an_area_that_is_not_known_is_left_out_and_never_zero(tmp_path):
    assert areas(tmp_path, "fpga-8x8") == [None, None]
    other = "      - {fields: [buffer.size_bits], values: [67108864]}\n"
    assert areas(tmp_path, "fusemax-cloud", other) == [None, None]
