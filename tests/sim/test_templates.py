"""Packaged templates: legal for a single query and for one query tile on chip, and executed as priced."""

import pytest

from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.schedule import Schedule, load_template, template_names
from accel.workload import Workload
from mapping.model import price
from sim.events import differences, execute, random_inputs

CASCADE = load_cascade("attention-1pass")
FPGA = load_architecture("fpga-8x8")


@pytest.mark.parametrize(("queries", "p1", "p0"), [(1, 1, 1), (24, 1, 8), (24, 2, 8)])
@pytest.mark.parametrize("name", template_names())
def test_a_template_is_legal_from_one_query_tile_on_and_executes_as_priced(name, queries, p1, p0):
    workload = Workload(name="w", batch=1, heads=2, kv_heads=2, queries=queries, keys=24, query_key_dim=4, value_dim=4)
    schedule = Schedule(
        cascade=CASCADE.name,
        architecture=FPGA.name,
        tiles={"m0": 8, "p1": p1, "p0": p0},
        plan=load_template(name).plan,
    )
    execution = execute(CASCADE, FPGA, schedule, workload, random_inputs(CASCADE, schedule, workload))
    assert differences(execution, price(CASCADE, FPGA, schedule, workload)) == []
