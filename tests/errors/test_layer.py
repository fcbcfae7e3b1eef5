"""Wrong levels, filters, nest files and layers, each with the exact text that a user sees."""

import dataclasses
import json
from pathlib import Path

import pytest

from accel.arch import GlobalBuffer, InnerBuffer, load_architecture
from accel.cost import AreaCost, load_cost_table
from accel.errors import InputError
from accel.layer import load_layer
from accel.nest import EinsumNest, LevelStore, Nest, Store, TensorStore, TileLoop
from accel.nest_result import NestResult
from accel.notation import parse
from accel.schedule import Axis
from mapping.layer import LayerResult, price_layer
from mapping.nest import NestModel
from mapping.reproduce import area_mm2

CLOUD = load_architecture("fusemax-cloud")
PRODUCT = "cascade product\n  input A[p,m] V[m,f]\n  Y[p,f] = A[p,m] * V[m,f]"
EXAMPLES = Path(__file__).parents[2] / "examples"
BARE = dataclasses.replace(CLOUD.arrays["1d"], parts={})
BERT = EXAMPLES / "layers" / "bert-base-encoder.yaml"
PAD = InnerBuffer(size_bits=4096, row_bits=64, component="pad", array="2d")


def model(where="", levels=None, kept=None, array="2d", sizes=None):
    nest = Nest(
        stages=(("Y",),),
        loops={"p1": TileLoop(rank="p", size=4)},
        einsums={"Y": EinsumNest(array=array, loops=("p1",), axes={"p": Axis.ROWS})},
        tensors={
            **dict.fromkeys("AY", TensorStore(store=Store.DRAM)),
            "V": TensorStore(store=Store.DRAM, levels=kept or {}),
        },
    )
    architecture = dataclasses.replace(CLOUD, levels=levels or {})
    return NestModel(
        cascade=parse(f"{PRODUCT}{where}\n"),
        architecture=architecture,
        nest=nest,
        sizes=sizes or {"P": 8, "M": 8, "F": 8},
    )


def layer(**changes):
    return price_layer(dataclasses.replace(load_layer(BERT), length=16, batch=1, **changes))


WRONG = {
    "banks that do not divide": (
        lambda: GlobalBuffer(size_bits=640, row_bits=64, component="c", banks=4),
        "banks must divide the 10 rows of the memory evenly, but 4 do not; use 2",
    ),
    "no ports": (
        lambda: InnerBuffer(size_bits=640, row_bits=64, component="c", ports=0),
        "ports must be at least 1, not 0",
    ),
    "half a row": (
        lambda: InnerBuffer(size_bits=100, row_bits=64, component="c"),
        "size_bits must be a multiple of row_bits (64), not 100; use 64",
    ),
    "a level with the name of an array": (
        lambda: dataclasses.replace(CLOUD, levels={"2d": PAD}),
        "level '2d' must have a name of its own, but another unit is called so; rename it",
    ),
    "a level for no array": (
        lambda: dataclasses.replace(CLOUD, levels={"pad": dataclasses.replace(PAD, array="3d")}),
        "level 'pad' must serve an array, but '3d' is none; known: 1d, 2d",
    ),
    "an area for another capacity": (
        lambda: area_mm2(
            dataclasses.replace(CLOUD, buffer=dataclasses.replace(CLOUD.buffer, size_bits=2**26)),
            load_cost_table("fusemax-45nm"),
        ),
        (
            "cost table 'fusemax-45nm' must have an area of 'sram-16MiB' for 67108864 bits, but has it for 134217728 "
            "only; add an entry for that capacity and name it as the component"
        ),
    ),
    "an area without parts": (
        lambda: area_mm2(
            dataclasses.replace(CLOUD, arrays={**CLOUD.arrays, "1d": BARE}),
            load_cost_table("fusemax-45nm"),
        ),
        "array '1d' of architecture 'fusemax-cloud' must name the parts of a PE to have an area; add parts",
    ),
    "a capacity of nothing": (
        lambda: AreaCost(area_um2=1.0, source="s", size_bits=0),
        "size_bits must be at least 1, not 0",
    ),
    "no copies": (
        lambda: LevelStore(copies=0),
        "copies must be at least 1, not 0",
    ),
    "an unknown level": (
        lambda: model(kept={"pad": LevelStore()}),
        (
            "tensor 'V' must pass through levels of architecture 'fusemax-cloud', but 'pad' is none; the architecture "
            "has none"
        ),
    ),
    "an unknown loop of a level": (
        lambda: model(levels={"pad": PAD}, kept={"pad": LevelStore(within="q")}),
        "a loop must be defined, but 'q' is not; known: p1",
    ),
    "a level of another array": (
        lambda: model(levels={"pad": PAD}, kept={"pad": LevelStore()}, array="1d"),
        (
            "level 'pad' must serve an array that uses tensor 'V', but serves '2d' and it is used on 1d; leave the "
            "level out for this tensor"
        ),
    ),
    "a level too small": (
        lambda: model(levels={"pad": PAD}, kept={"pad": LevelStore(copies=5)}),
        (
            "level 'pad' must hold 5120 bits in whole rows (V 5120), but has 4096: 1024 too few; keep the tensors "
            "within a loop further in, or choose smaller loops"
        ),
    ),
    "a filter that excludes one value": (
        lambda: model(" where m != p"),
        (
            "the filter of Einsum 'Y' must be a band of two ranks, such as m <= p, m > p - W, or bounds of one, in a "
            "nest, but is 'where m != p'; price the cascade without it, which is an upper bound"
        ),
    ),
    "a filter of two shapes": (
        lambda: model(" where m <= p, f <= p"),
        (
            "the filter of Einsum 'Y' must be a band of two ranks, such as m <= p, m > p - W, or bounds of one, in a "
            "nest, but is 'where m <= p, f <= p'; price the cascade without it, which is an upper bound"
        ),
    ),
    "a window without a size": (
        lambda: model(" where m > p - W"),
        "'W' in the filter of Einsum 'Y' must have a value; give W",
    ),
    "what is no result of a nest": (
        lambda: NestResult.from_dict({"accounting": 3}),
        (
            "a result must have the fields of accel.nest_result.NestResult, but accounting: Input should be a valid "
            "string; give what NestResult.as_dict returned"
        ),
    ),
    "what is no result of a layer": (
        lambda: LayerResult.from_dict({"parts": [], "left_out": [], "model_layers": 1}),
        (
            "a result must have the fields of mapping.layer.LayerResult, but layer: Field required; give what "
            "LayerResult.as_dict returned"
        ),
    ),
    "more queries than keys": (
        lambda: dataclasses.replace(load_layer(BERT), queries=1000),
        "queries must be among the 512 keys, but are 1000; raise length",
    ),
    "a layer of no sequences": (
        lambda: dataclasses.replace(load_layer(BERT), batch=0),
        "batch must be at least 1, not 0",
    ),
    "linear layers on no array": (
        lambda: layer(matrix_array="3d"),
        "a linear layer must run on an array of architecture 'fusemax-cloud', but '3d' is none; known: 1d, 2d",
    ),
    "vector work without a root": (
        lambda: layer(architecture="flat-cloud"),
        "array '1d' must have operator 'sqrt' to run Einsum 'RS'; run it on another array",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_is_refused_with_this_text(name):
    act, text = WRONG[name]
    with pytest.raises(InputError) as caught:
        act()
    assert str(caught.value) == text


def test_a_nest_file_for_another_cascade_is_refused(einrtl):
    nest, config = EXAMPLES / "nests" / "unfused-3pass.yaml", EXAMPLES / "models" / "gpt2" / "config.json"
    finished = einrtl("price", nest, config, "--cascade", "attention-2pass")
    assert (finished.code, finished.out) == (2, "")
    assert finished.err == (
        "error: the nest must be for cascade 'attention-2pass', but is for 'attention-3pass'; price it with cascade "
        "'attention-3pass'\n"
    )


def test_an_unknown_key_of_a_nest_file_is_named_with_its_place(einrtl, tmp_path):
    path = tmp_path / "nest.yaml"
    path.write_text("cascade: attention-3pass\narchitecture: flat-cloud\nnest: {stages: [[QK]], lops: {}}\n")
    finished = einrtl("price", path, EXAMPLES / "models" / "gpt2" / "config.json")
    assert finished.code == 2
    assert f"{path}:3:24" in finished.err
    assert "'nest.lops' is not a known key; did you mean 'loops'?" in finished.err


def test_a_layer_of_a_model_that_is_not_there_is_refused(einrtl, tmp_path):
    path = tmp_path / "layer.yaml"
    path.write_text(BERT.read_text())
    finished = einrtl("layer", path, "--json")
    assert (finished.code, finished.out) == (2, "")
    assert "bert-base-uncased/config.json" in finished.err


def test_a_wrong_word_in_a_layer_is_answered_with_the_right_ones(einrtl, tmp_path):
    text = BERT.read_text().replace("../models", str(EXAMPLES / "models"))
    path = tmp_path / "layer.yaml"
    path.write_text(text.replace("norm: layernorm", "norm: batchnorm"))
    finished = einrtl("layer", path)
    assert (finished.code, json.dumps(finished.out)) == (2, '""')
    assert "'norm' must be one of layernorm, rmsnorm, not 'batchnorm'" in finished.err
