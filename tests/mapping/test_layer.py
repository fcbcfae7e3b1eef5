"""Whole layers: the parts add up, count what a hand count gives, and the vector work computes what it is called."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from accel.arch import load_architecture
from accel.cost import load_cost_table
from accel.layer import load_layer
from mapping.layer import VECTOR, LayerResult, price_layer
from mapping.linear import LINEAR, best_linear
from mapping.nest import NestModel
from mapping.nest_price import price_nest

LAYERS = Path(__file__).parents[2] / "examples" / "layers"
CLOUD = load_architecture("fusemax-cloud")
COSTS = load_cost_table("fusemax-45nm")


@pytest.fixture(scope="module")
def decode():
    return price_layer(load_layer(LAYERS / "llama-3-8b-decode.yaml"))


@pytest.fixture(scope="module")
def encoder():
    layer = load_layer(LAYERS / "bert-base-encoder.yaml")
    tiles = {"m0": 512, "p0": 256, "p1": 1}
    return price_layer(dataclasses.replace(layer, attention=dataclasses.replace(layer.attention, tiles=tiles)))


def macs(result, name):
    part = next(part for part in result.parts if part.name == name)
    return part.price.count("2d", "mac")


def test_the_parts_add_up(encoder):
    assert encoder.latency_cycles == math.fsum(part.price.latency_cycles for part in encoder.parts)
    assert encoder.energy_pj == pytest.approx(sum(part.price.energy_pj for part in encoder.parts), rel=1e-12)
    assert [len(encoder.of_kind(kind)) for kind in ("attention", "linear", "vector")] == [1, 6, 5]


def test_linear_layers_count_each_product_once(encoder, decode):
    rows = 64 * 512
    for name in ("query", "key", "value", "output"):
        assert macs(encoder, name) == rows * 768 * 768
    for name in ("up", "down"):
        assert macs(encoder, name) == rows * 768 * 3072
    assert macs(decode, "query") == macs(decode, "output") == 16 * 4096 * 4096
    assert macs(decode, "key") == macs(decode, "value") == 16 * 4096 * 8 * 128  # 8 key/value heads of 128
    assert macs(decode, "gate") == macs(decode, "up") == macs(decode, "down") == 16 * 4096 * 14336


def test_decoding_is_limited_by_the_weights_and_keys_that_come_from_dram(decode):
    products = [part for part in decode.parts if part.kind != "vector"]
    assert {part.price.limit for part in products} == {"dram"}
    weights = 2 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    keys_and_values = 2 * 16 * 8 * 8192 * 128 * 2
    assert 1 <= sum(part.price.traffic_bytes for part in products) / (weights + keys_and_values) < 1.02


def test_a_causal_prefill_takes_about_half_of_the_attention():
    layer = load_layer(LAYERS / "llama-3-8b-prefill.yaml")
    whole = dataclasses.replace(layer, attention=dataclasses.replace(layer.attention, cascade="attention-1pass"))
    causal, full = ({part.name: part.price for part in price_layer(each).parts} for each in (layer, whole))
    assert 0.5 < causal["attention"].latency_cycles / full["attention"].latency_cycles < 0.6
    assert causal["up"] == full["up"]


@pytest.mark.parametrize("machine", ["fusemax-cloud", "edge", "tpu-like", "fpga-8x8"])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 768, 3072), (512, 768, 100), (33, 5, 7)])
def test_a_linear_layer_is_never_below_what_its_machine_can_do(machine, rows, inputs, outputs):
    architecture = load_architecture(machine)
    costs = load_cost_table(architecture.technology)
    found = best_linear(architecture, "2d", rows, inputs, outputs, costs)
    array = architecture.arrays["2d"]
    least = 2 * (rows * inputs + inputs * outputs + rows * outputs)
    assert found.result.traffic_bytes >= least
    memory = architecture.memory_cycles(8 * least)
    floor = max(rows * inputs * outputs / array.pes, memory)
    assert floor <= found.result.latency_cycles
    model = NestModel(
        cascade=LINEAR, architecture=architecture, nest=found.nest, sizes={"R": rows, "K": inputs, "N": outputs}
    )
    assert price_nest(model, instances=1, costs=costs) == found.result


def test_a_linear_layer_that_fits_is_near_its_floor():
    found = best_linear(CLOUD, "2d", 4096, 1024, 1024, COSTS)
    assert found.result.latency_cycles == 4096 * 1024 * 1024 / 256**2
    found = best_linear(CLOUD, "2d", 1, 4096, 4096, COSTS)
    assert found.result.traffic_bytes == 2 * (4096 * 4096 + 2 * 4096)


def test_the_vector_work_computes_what_it_is_called():
    generator = np.random.default_rng(1)
    x, z, gain, bias = (generator.normal(size=shape) for shape in ((5, 16), (5, 16), (16,), (16,)))

    def run(name, **inputs):
        return VECTOR[name].evaluate(inputs)["Y"]

    mean, variance = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    sigmoid = 1 / (1 + np.exp(-x))
    tanh = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    close = {"rtol": 1e-12, "atol": 1e-14}
    np.testing.assert_allclose(
        run("layernorm", X=x, G=gain, B=bias), (x - mean) / np.sqrt(variance + 1e-5) * gain + bias, **close
    )
    root = np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run("rmsnorm", X=x, G=gain), x / root * gain, **close)
    np.testing.assert_allclose(run("gelu", X=x), 0.5 * x * (1 + tanh), **close)
    np.testing.assert_allclose(run("swiglu", X=x, Z=z), x * sigmoid * z, **close)
    np.testing.assert_allclose(run("residual", X=x, Z=z), x + z, **close)


def test_a_result_survives_json(decode):
    values = json.loads(json.dumps(decode.as_dict()))
    assert values["derived"]["latency_cycles"] == decode.latency_cycles
    assert LayerResult.from_dict(values) == decode


def test_the_command_prints_every_part(einrtl, decode):
    finished = einrtl("layer", LAYERS / "llama-3-8b-decode.yaml")
    assert (finished.code, finished.err) == (0, "")
    for part in decode.parts:
        assert part.name in finished.out
    assert f"{decode.latency_cycles:,.0f}" in finished.out
    shown = json.loads(einrtl("layer", LAYERS / "llama-3-8b-decode.yaml", "--batch", "1", "--json").out)
    assert shown["layer"]["batch"] == 1
    assert shown["derived"]["latency_cycles"] < decode.latency_cycles
