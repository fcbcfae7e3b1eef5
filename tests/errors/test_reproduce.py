"""Wrong nests, studies and cost settings, each with the exact text that a user sees."""

import dataclasses
from pathlib import Path

import pytest

from accel.arch import load_architecture
from accel.configuration import RegisterCount, load_study
from accel.cost import AreaCost, load_cost_table
from accel.errors import InputError
from accel.nest import EinsumNest, Nest, Store, TensorStore, TileLoop
from accel.notation import parse
from accel.schedule import Axis
from mapping.nest import NestModel
from mapping.plot_reproduce import figures
from mapping.published import load_published
from mapping.reproduce import area_mm2, price_study

CLOUD = load_architecture("fusemax-cloud")
FLAT = load_architecture("flat-cloud")
STUDY = load_study("published")
PRODUCT = parse("cascade product\n  input A[p,m] V[m,f]\n  Y[p,f] = A[p,m] * V[m,f]\n")
CHAIN = parse("cascade chain\n  input A[p,m] V[m,f]\n  Y[p,f] = A[p,m] * V[m,f]\n  Z[p,f] = Y[p,f] * Y[p,f]\n")
STREAM = TensorStore(store=Store.DRAM)
LOOPS = {"p1": TileLoop(rank="p", size=4)}
NEST = Nest(
    stages=(("Y",),),
    loops=LOOPS,
    einsums={"Y": EinsumNest(array="2d", loops=("p1",), axes={"p": Axis.ROWS})},
    tensors=dict.fromkeys("AVY", STREAM),
)
TWICE = Nest(
    stages=(("Y", "Z"),),
    loops=LOOPS,
    einsums=dict.fromkeys("YZ", NEST.einsums["Y"]),
    tensors=dict.fromkeys("AVYZ", STREAM),
)


def nest(**changes):
    return dataclasses.replace(NEST, **changes)


def model(given, cascade=PRODUCT, sizes=None):
    return NestModel(cascade=cascade, architecture=FLAT, nest=given, sizes=sizes or {"P": 8, "M": 8, "F": 8})


WRONG = {
    "an axis for two ranks": (
        lambda: EinsumNest(array="2d", loops=(), axes={"p": Axis.ROWS, "m": Axis.ROWS}),
        "each axis must serve one rank, but one serves two; leave one without",
    ),
    "a loop of no size": (
        lambda: TileLoop(rank="p", size=0),
        "size must be at least 1, not 0",
    ),
    "a stream that is kept": (
        lambda: TensorStore(store=Store.DRAM, within="p1"),
        "within must belong to a tensor that the buffer keeps, but this one streams and has 'p1'; set staged: true",
    ),
    "a buffer that is staged": (
        lambda: TensorStore(store=Store.BUFFER, staged=True),
        "staged must be left out for store: buffer",
    ),
    "negative copies": (
        lambda: TensorStore(store=Store.BUFFER, copies=-1),
        "copies must be 0 or more, not -1",
    ),
    "an empty stage": (
        lambda: nest(stages=(("Y",), ())),
        "stages must hold at least one stage, and each an Einsum",
    ),
    "an Einsum in two stages": (
        lambda: nest(stages=(("Y",), ("Y",))),
        "Einsum 'Y' must stand in one stage, not in 2",
    ),
    "an Einsum without a nest": (
        lambda: nest(stages=(("Y", "Z"),)),
        "Einsum 'Z' must have a nest; add Z",
    ),
    "a nest without a stage": (
        lambda: nest(einsums={**NEST.einsums, "Z": NEST.einsums["Y"]}),
        "a nest must belong to an Einsum of a stage, but 'Z' is none; known: Y",
    ),
    "an unknown loop": (
        lambda: nest(einsums={"Y": dataclasses.replace(NEST.einsums["Y"], loops=("p3",))}),
        "a loop must be defined, but 'p3' is not; known: p1",
    ),
    "an unknown loop of a tensor": (
        lambda: nest(tensors={**NEST.tensors, "A": TensorStore(store=Store.DRAM, staged=True, within="q")}),
        "a loop must be defined, but 'q' is not; known: p1",
    ),
    "a tensor that is not stored": (
        lambda: model(nest(tensors={"A": STREAM, "Y": STREAM})),
        "the nest must say how 'V' of cascade 'product' is stored; add V",
    ),
    "an unknown tensor": (
        lambda: model(nest(tensors={**NEST.tensors, "W": STREAM})),
        "tensor 'W' must belong to cascade 'product'; known: A, V, Y",
    ),
    "a loop over an unknown rank": (
        lambda: model(nest(loops={**LOOPS, "q1": TileLoop(rank="q", size=1)})),
        "loop 'q1' must run over a rank of cascade 'product', not 'q'; known: f, m, p",
    ),
    "a rank without a size": (
        lambda: model(NEST, sizes={"P": 8, "M": 8}),
        "rank 'f' must have a size; give F",
    ),
    "an unknown array": (
        lambda: model(nest(einsums={"Y": dataclasses.replace(NEST.einsums["Y"], array="3d")})),
        "Einsum 'Y' must run on an array of architecture 'flat-cloud', but '3d' is none; known: 1d, 2d",
    ),
    "an operator that is missing": (
        lambda: model(NEST, cascade=parse("cascade c\n  input A[p,m] V[m,f]\n  Y[p,f] = exp(A[p,m]) * V[m,f]\n")),
        "array '2d' must have operator 'exp' to run Einsum 'Y'; run it on another array",
    ),
    "a buffer too small": (
        lambda: model(
            nest(tensors=dict.fromkeys("AVY", TensorStore(store=Store.DRAM, staged=True))),
            sizes={"P": 8192, "M": 8192, "F": 64},
        ),
        (
            "the buffer must hold 1090519040 bits (A 1073741824, V 8388608, Y 8388608), but has 268435456: "
            "822083584 too few; choose smaller loops, or overflow: spilled"
        ),
    ),
    "a filter": (
        lambda: model(
            NEST, cascade=parse("cascade c\n  input A[p,m] V[m,f]\n  Y[p,f] = A[p,m] * V[m,f] where 2*m <= 3*p\n")
        ),
        (
            "the filter of Einsum 'Y' must be a band of two ranks, such as m <= p, m > p - W, or bounds of one, in a "
            "nest, but is 'where 2*m <= 3*p'; price the cascade without it, which is an upper bound"
        ),
    ),
    "a reader ahead of its maker": (
        lambda: model(dataclasses.replace(TWICE, stages=(("Z", "Y"),)), cascade=CHAIN),
        "'Z' must stand after 'Y', which it reads; move it behind, or to a later stage",
    ),
    "a register count of an unknown symbol": (
        lambda: RegisterCount(array="2d", component="c", reads={"2*Q": 1}, writes={}, instances={}, source="s"),
        (
            "a term must be made of E, F, M0, P0, M1, K and numbers, but '2*Q' has 'Q'; write products as "
            "E*M0 and quotients as E/M1"
        ),
    ),
    "a register count for something else": (
        lambda: RegisterCount(array="2d", component="c", reads={}, writes={}, instances={}, source="s", per="day"),
        "per must be tile or operation, not 'day'",
    ),
    "a configuration that runs nothing": (
        lambda: dataclasses.replace(STUDY.configurations[4], pipeline=None),
        "a configuration must have either a pipeline or nests",
    ),
    "a model without a nest": (
        lambda: STUDY.configurations[1].nest("GPT", 1024),
        "configuration 'FLAT' must have a nest for GPT at length 1024; add a case",
    ),
    "an unknown baseline": (
        lambda: price_study(dataclasses.replace(STUDY, baselines=("Flat",))),
        "'Flat' must be a configuration of study 'published'; known: +Architecture, +Binding, +Cascade, FLAT, Unfused",
    ),
    "an unknown study": (
        lambda: load_study("correct"),
        "'correct' is not the name of a study; did you mean 'corrected'? a file needs its .yaml ending",
    ),
    "an area that is missing": (
        lambda: area_mm2(load_architecture("fusemax-cloud"), load_cost_table("open-45nm")),
        "cost table 'open-45nm' must have an area for part 'sram-16MiB'; none is known",
    ),
    "a part that is not there": (
        lambda: dataclasses.replace(CLOUD.arrays["2d"], parts={"mac-fp16": 0}),
        "part 'mac-fp16' must count at least 1, not 0; leave out what is not there",
    ),
    "a negative area": (
        lambda: AreaCost(area_um2=-1.0, source="s"),
        "area_um2 must be a finite area in square micrometres, 0 or more, not -1.0; give the area of one part in um2",
    ),
    "an area from nowhere": (
        lambda: AreaCost(area_um2=1.0, source=" "),
        "source must name where the number comes from, but is empty",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_is_refused_with_this_text(name):
    act, text = WRONG[name]
    with pytest.raises(InputError) as caught:
        act()
    assert str(caught.value) == text


def test_a_published_file_that_is_missing_is_named(tmp_path: Path):
    with pytest.raises(InputError) as caught:
        load_published(tmp_path)
    assert str(caught.value) == "points.csv must be a readable file: No such file or directory; check the folder"


def test_a_folder_for_figures_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    result = price_study(dataclasses.replace(STUDY, lengths=(1024,), sweep=()))
    with pytest.raises(InputError) as caught:
        figures(result, load_published(), tmp_path / "taken")
    assert str(caught.value) == (
        f"{tmp_path / 'taken' / 'attention-speedup.png'} must be writable: File exists; choose another folder"
    )


def test_an_unknown_setting_is_a_usage_error(einrtl):
    done = einrtl("reproduce", "fusemax", "--setting", "corect")
    assert done.code == 2
    assert done.err.endswith("Error: Invalid value for '--setting': 'corect' is not one of 'corrected', 'published'.\n")
