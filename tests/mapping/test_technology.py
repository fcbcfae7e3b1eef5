"""Cost tables from component models: a package that stands in for the hwcomponents family gives known numbers."""

import json
import sys
from pathlib import Path

import pytest

from accel import spec
from accel.cost import CostTable, load_cost_table
from accel.errors import InputError
from accel.technology import ModelEntry, TechnologyRequest, load_request
from mapping.technology import cost_table

EXAMPLE = Path(__file__).parents[2] / "examples" / "technology" / "dram.yaml"
# The worker asks for Python 3.12; a stand-in says that it is one, whatever runs the tests.
FAKE = """
class Cost:
    def __init__(self, energy):
        self.energy = energy

class Memory:
    def __init__(self, width, tech_node=45e-9):
        self.width, self.tech_node = width, tech_node
        print("chatter on standard output")
        if width > 4096:
            raise ValueError("too wide\\nfor this technology")
    def read(self):
        return Cost(self.width * 1e-12 * (self.tech_node / 45e-9))
    def write(self):
        return Cost((-self.width + 0j) ** 0.5 if self.width == 3 else self.width * 2e-12)
    area = 5e-9
    @classmethod
    def get_action_names(cls):
        return ["read", "write"]

def get_models():
    return [Memory]
"""


@pytest.fixture
def python(tmp_path, monkeypatch):
    """Return a Python that has the stand-in and calls itself 3.12."""
    folder = tmp_path / "packages"
    (folder / "hwcomponents-1.2.3.dist-info").mkdir(parents=True)
    (folder / "hwcomponents.py").write_text(FAKE)
    (folder / "hwcomponents-1.2.3.dist-info" / "METADATA").write_text("Name: hwcomponents\nVersion: 1.2.3\n")
    (folder / "hwcomponents-1.2.3.dist-info" / "top_level.txt").write_text("hwcomponents\n")
    (folder / "sitecustomize.py").write_text("import sys\nsys.version_info = (3, 12, 0, 'final', 0)\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return sys.executable


def entry(**changes):
    values = {
        "model": "Memory",
        "arguments": {"width": 64},
        "component": "sram",
        "actions": {"read": "read", "write": "write"},
        "per_bits": 64,
        "area": "sram-64",
    } | changes
    return ModelEntry(**values)


def request(*entries):
    return TechnologyRequest(name="mine", description="leakage is not in it", entries=entries)


def test_energies_and_areas_come_in_the_units_of_the_table_with_their_source(python):
    found = cost_table(request(entry(arguments={"width": 64, "tech_node": 22.5e-9})), python)
    assert found.energy_pj("sram", "read", bits=64) == pytest.approx(32.0, rel=1e-12)
    assert found.energy_pj("sram", "write", bits=16) == pytest.approx(32.0, rel=1e-12)
    assert found.area_um2("sram-64") == pytest.approx(5000.0, rel=1e-12)
    source = "hwcomponents 1.2.3 (PyPI): Memory(width=64, tech_node=2.25e-08)"
    assert found.components["sram"]["read"].source == f"{source}.read"
    assert found.areas["sram-64"].source == f"{source}.area"


def test_several_models_may_make_one_component(python):
    found = cost_table(
        request(
            entry(component="pe", actions={"mac": "read"}, per_bits=None, area=None),
            entry(component="pe", actions={"max": "write"}, per_bits=None, area=None, arguments={"width": 8}),
        ),
        python,
    )
    assert found.energy_pj("pe", "mac") == pytest.approx(64.0)
    assert found.energy_pj("pe", "max") == pytest.approx(16.0)
    assert found.areas == {}


WRONG = {
    "a model that is not there": (
        {"model": "Sram"},
        (
            "model 'Sram' must give the costs of 'sram', but fails: LookupError: no installed package has it; check "
            "its name, arguments and actions"
        ),
    ),
    "an action that is not there": (
        {"actions": {"read": "fetch"}},
        (
            "model 'Memory' must give the costs of 'sram', but fails: LookupError: its actions are read, write; check "
            "its name, arguments and actions"
        ),
    ),
    "a model that fails": (
        {"arguments": {"width": 9999}},
        (
            "model 'Memory' must give the costs of 'sram', but fails: ValueError: too wide; check its name, arguments "
            "and actions"
        ),
    ),
    "a negative energy": (
        {"arguments": {"width": -64}},
        (
            "the energy of 'read' of model 'Memory' must be a finite number above 0, but is -6.4e-11; check its "
            "arguments, or leave out what it does not estimate"
        ),
    ),
    "an energy of nothing": (
        {"arguments": {"width": 0}},
        (
            "the energy of 'read' of model 'Memory' must be a finite number above 0, but is 0.0; check its "
            "arguments, or leave out what it does not estimate"
        ),
    ),
    "a complex energy": (
        {"arguments": {"width": 3}, "actions": {"write": "write"}},
        (
            "the energy of 'write' of model 'Memory' must be a finite number above 0, but is "
            "(1.0605752387249068e-16+1.7320508075688772j); check its arguments, or leave out what it does not estimate"
        ),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_model_cannot_give_is_named(name, python):
    changes, text = WRONG[name]
    with pytest.raises(InputError) as caught:
        cost_table(request(entry(**changes)), python)
    assert str(caught.value) == text


def fails(python):
    with pytest.raises(InputError) as caught:
        cost_table(request(entry()), python)
    return str(caught.value)


OUT = "make an environment of Python 3.12 or newer, pip install hwcomponents and its models, and give --python"


def test_a_python_that_is_missing_too_old_or_bare_is_named(tmp_path, monkeypatch):
    missing = tmp_path / "python"
    assert fails(str(missing)) == f"'{missing}' must be a Python that runs: No such file or directory; {OUT}"
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.version_info, sys.version = (3, 11, 0, 'final', 0), '3.11.0 (main)'\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    old = fails(sys.executable)
    assert old == f"hwcomponents must run on Python 3.12 or newer, but {sys.executable} is 3.11.0; {OUT}"
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.version_info = (3, 12, 0, 'final', 0)\nsys.modules['hwcomponents'] = None\n"
    )
    bare = fails(sys.executable)
    assert bare.startswith(f"{sys.executable} must have hwcomponents, but has not: ") and bare.endswith(OUT)
    assert fails("/bin/false") == f"'/bin/false' must run the models, but ends with code 1: no message; {OUT}"


def test_a_request_asks_for_each_number_once():
    with pytest.raises(InputError) as caught:
        request(entry(), entry(area=None))
    assert str(caught.value) == "action of 'sram' 'read' must come from one entry, not from two; remove one of them"
    with pytest.raises(InputError) as caught:
        request(entry(), entry(component="other"))
    assert str(caught.value) == "area of part 'sram-64' must come from one entry, not from two; remove one of them"


def test_the_command_writes_a_table_that_loads(einrtl, python, tmp_path):
    path, table = tmp_path / "request.yaml", tmp_path / "table.yaml"
    path.write_text(spec.dump(request(entry())))
    finished = einrtl("tech", path, "-o", table, "--python", python)
    assert (finished.code, finished.err) == (0, "")
    assert "Cost table mine" in finished.out and f"Wrote {table}" in finished.out
    assert load_cost_table(table).energy_pj("sram", "read", bits=64) == pytest.approx(64.0)
    shown = json.loads(einrtl("tech", path, "--python", python, "--json").out)
    assert shown["components"]["sram"]["write"]["energy_pj"] == pytest.approx(128.0)
    assert isinstance(load_cost_table(table), CostTable)
    assert einrtl("tech", tmp_path / "none.yaml").code == 2


def test_the_example_is_a_request():
    assert {each.model for each in load_request(EXAMPLE).entries} == {"DDR3", "HBM2", "RaellaQuantMultiplier"}
