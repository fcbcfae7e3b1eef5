"""Schedules as data: round trips, and templates that say what they mean."""

from hypothesis import given
from hypothesis import strategies as st

from accel import spec
from accel.schedule import Axis, Level, Plan, Residence, Schedule, ScheduleTemplate, load_template, template_names

PLAN = load_template("interleaved-1pass").plan


@given(st.tuples(*(st.integers(1, 2**20) for _ in range(3))), st.integers(0, 5), st.integers(1, 3))
def test_a_schedule_survives_yaml(sizes, later, copies):
    tiles = dict(zip(("m0", "p0", "p1"), sizes, strict=True))
    residency = {**PLAN.residency, "K": Residence(level=Level.BUFFER, within="instance", copies=copies)}
    offsets = {name: offset + later for name, offset in PLAN.offsets.items()}
    plan = Plan(
        splits=PLAN.splits,
        loops=PLAN.loops,
        axes=PLAN.axes,
        epoch=PLAN.epoch,
        offsets=offsets,
        residency=residency,
    )
    schedule = Schedule(cascade="attention-1pass", architecture="fusemax-cloud", tiles=tiles, plan=plan)
    assert spec.loads(Schedule, spec.dump(schedule)) == schedule


def test_every_packaged_template_survives_yaml():
    for name in template_names():
        template = load_template(name)
        assert template.name == name
        assert spec.loads(ScheduleTemplate, spec.dump(template)) == template


def test_a_plan_tells_the_binding_the_tiles_and_the_depth():
    assert [name for name, array in PLAN.binding.items() if array == "2d"] == ["BQK", "LM", "SLNV", "SLN", "SLD"]
    assert PLAN.tile_ranks == ("m0", "p0")
    assert PLAN.split_of == {"m1": "m", "m0": "m", "p2": "p", "p1": "p", "p0": "p"}
    assert PLAN.axes == {"m0": Axis.ROWS, "p0": Axis.COLUMNS}
    assert PLAN.depth == 3
