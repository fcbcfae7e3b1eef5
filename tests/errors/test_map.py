"""What ``einrtl map`` and the search say to wrong input, word for word."""

import dataclasses

import pytest

from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.errors import InputError
from accel.workload import Workload
from mapping.search import Limits, search

BERT = "examples/models/bert-base-uncased/config.json"
CLOUD = load_architecture("fusemax-cloud")
WORKLOAD = Workload(name="w", batch=1, heads=1, kv_heads=1, queries=64, keys=64, query_key_dim=8, value_dim=8)


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--plan", "a.yaml", "--template", "b"), "--plan and --template both give the plan; leave one out"),
        (("--pareto", "--template", "b"), "--pareto and --space go through all plans; leave out --plan and --template"),
        (
            ("--space", "--save", "x.yaml"),
            "--save, --plot and --trace take one schedule; --space and --pareto have none or many",
        ),
        (("--budget", "0"), "Invalid value for '--budget': 0.0 is not in the range x>0"),
        (("--points", "0"), "Invalid value for '--points': 0 is not in the range x>=1"),
        (("--tile", "m9=4"), "a tile size must belong to a tile rank of the plan, but 'm9' is none; known: m0, p0, p1"),
        (("--template", "interleaved-2pass"), "did you mean 'interleaved-1pass'?"),
    ],
)
def test_wrong_options_are_refused_with_the_way_out(einrtl, arguments, message):
    run = einrtl("map", BERT, "--length", "64", *arguments)
    assert run.code == 2
    assert message in " ".join(run.err.split())


def test_a_template_for_another_cascade_is_refused(einrtl):
    run = einrtl("map", BERT, "--cascade", "attention-3pass", "--template", "interleaved-1pass")
    assert run.code == 2
    assert (
        "cascade 'attention-3pass' must have the structure of 'attention-1pass', for which template "
        "'interleaved-1pass' is; leave out --template" in " ".join(run.err.split())
    )


def test_a_row_that_the_buffer_cannot_hold_is_told_with_the_way_out():
    workload = dataclasses.replace(WORKLOAD, queries=1, keys=65536)
    with pytest.raises(InputError) as caught:
        search(load_cascade("attention-2pass"), load_architecture("fpga-8x8"), workload)
    assert str(caught.value).startswith(
        "no tile sizes of the space make a legal schedule on architecture 'fpga-8x8'; closest is m0=65536, p1=1, p0=1, "
        "where the buffer must hold"
    )
    assert "enlarge the buffer, which must hold all 65536 keys of a row; or price a nest (docs/nests.md)" in str(
        caught.value
    )


def test_a_tile_of_some_keys_is_refused_where_several_passes_go_over_all():
    with pytest.raises(InputError) as caught:
        search(load_cascade("attention-2pass"), CLOUD, WORKLOAD, tiles={"m0": 16})
    assert str(caught.value) == (
        "tile size m0 must be 64, all keys, for cascade 'attention-2pass', which goes over them 2 times, not 16; leave "
        "it out, or fix p0"
    )


def test_limits_must_be_positive():
    with pytest.raises(InputError, match="stages must be positive, not 0; leave it out"):
        Limits(stages=0)


def test_an_array_that_lacks_an_operator_is_named():
    arrays = {
        name: dataclasses.replace(each, operators={k: v for k, v in each.operators.items() if k != "divide"})
        for name, each in CLOUD.arrays.items()
    }
    with pytest.raises(InputError) as caught:
        search(load_cascade("attention-1pass"), dataclasses.replace(CLOUD, arrays=arrays), WORKLOAD)
    assert str(caught.value) == (
        "an array of architecture 'fusemax-cloud' must have all operators of Einsum 'AV' (divide), but none has; add "
        "the missing operator to an array"
    )
