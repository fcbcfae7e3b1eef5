"""Architectures and cost tables: presets whose every number has a source, and no silent zero."""

import dataclasses
import re

import pytest

from accel import spec
from accel.arch import Architecture, architecture_names, load_architecture
from accel.cost import CostTable, cost_table_names, load_cost_table
from accel.errors import InputError


@pytest.mark.parametrize("name", architecture_names())
def test_every_number_of_a_packaged_architecture_names_its_source(name):
    assert load_architecture(name).numbers_without_source == ()


def test_a_number_without_a_source_is_found():
    cloud = load_architecture("fusemax-cloud")
    bare = dataclasses.replace(cloud, sources={key: text for key, text in cloud.sources.items() if key != "buffer"})
    assert bare.numbers_without_source == ("buffer.size_bits", "buffer.row_bits")


@pytest.mark.parametrize("name", architecture_names())
def test_every_action_of_a_packaged_architecture_has_a_cost(name):
    architecture = load_architecture(name)
    table = load_cost_table(architecture.technology)
    for array in architecture.arrays.values():
        for operator in array.operators.values():
            for action in operator.actions:
                assert table.energy_pj(array.component, action) > 0
    for memory, bits in (
        (architecture.buffer.component, architecture.buffer.row_bits),
        (architecture.dram.component, architecture.dram.word_bits),
    ):
        for action in ("read", "write"):
            assert table.energy_pj(memory, action, bits=bits) > 0


@pytest.mark.parametrize("name", architecture_names())
def test_a_packaged_architecture_survives_yaml(name):
    architecture = load_architecture(name)
    assert architecture.name == name
    assert spec.loads(Architecture, spec.dump(architecture)) == architecture


@pytest.mark.parametrize("name", cost_table_names())
def test_a_packaged_cost_table_survives_yaml_and_says_what_it_leaves_out(name):
    table = load_cost_table(name)
    assert table.name == name
    assert re.search("not in (it|them)", " ".join(table.description.split()))
    assert spec.loads(CostTable, spec.dump(table)) == table


def test_the_cloud_preset_has_the_published_shape():
    cloud = load_architecture("fusemax-cloud")
    assert {name: (array.rows, array.columns, array.pes) for name, array in cloud.arrays.items()} == {
        "2d": (256, 256, 65536),
        "1d": (1, 256, 256),
    }
    assert cloud.buffer.size_bits == 16 * 2**20 * 8 == 32768 * cloud.buffer.row_bits
    assert cloud.dram.bandwidth_bits_per_s == 400 * 2**30 * 8
    assert cloud.clock_hz == 940e6
    assert cloud.arrays["2d"].operators["exp"].actions == {"mac": 6}
    assert "divide" not in cloud.arrays["2d"].operators


def test_cycles_turn_into_seconds_and_bits_into_cycles():
    cloud = load_architecture("fusemax-cloud")
    assert cloud.seconds(940e6) == 1.0
    assert cloud.memory_cycles(400 * 2**30 * 8) == 940e6


def test_the_energy_of_an_access_grows_with_its_width():
    table = load_cost_table("open-45nm")
    assert table.energy_pj("sram", "read") == table.energy_pj("sram", "read", bits=64) == 25.9
    assert table.energy_pj("sram", "read", bits=128) == 51.8
    assert table.energy_pj("sram", "write", bits=1) == pytest.approx(19.7 / 64)
    for action in ("multiply", "add", "max", "divide"):
        assert table.energy_pj("pe-int16", action) > 0


def test_an_operator_has_no_width_to_scale_with():
    with pytest.raises(InputError, match="must state per_bits"):
        load_cost_table("open-45nm").energy_pj("pe-int16", "add", bits=8)


def test_an_architecture_can_come_from_a_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(spec.dump(load_architecture("fpga-8x8")).replace("name: fpga-8x8", "name: mine"))
    assert load_architecture(file).name == load_architecture(str(file)).name == "mine"
