import json

import pytest
from click.testing import CliRunner

from accel.cli import root
from rtl.registry import find_unit

FILES = ("softmax.v", "softmax.json", "softmax.core", "test_softmax.py", "softmax_vectors.json", "run_softmax.py")


def run(*arguments):
    return CliRunner().invoke(root, ["rtl", "softmax", *map(str, arguments)], catch_exceptions=False)


def test_rtl_softmax_writes_verilog_and_sidecar_and_shows_the_figures(tmp_path):
    result = run("--lanes", 1, "--max-length", 256, "-o", tmp_path / "new" / "build")
    assert result.exit_code == 0
    assert {path.name for path in (tmp_path / "new" / "build").iterdir()} == set(FILES)
    unit = find_unit("softmax").default
    for text in ("s_axis_tdata", "latency", f"{unit.max_error:.3g}", "279 x 27", "2720"):
        assert text in result.output


def test_rtl_softmax_twice_gives_identical_bytes(tmp_path):
    def read():
        assert run("-o", tmp_path, "--lanes", 2).exit_code == 0
        return [(tmp_path / name).read_bytes() for name in FILES]

    assert read() == read()


@pytest.mark.parametrize(("flag", "port"), [("--axi", "s_axis_tdata"), ("--stream", "scores_score")])
def test_the_ports_are_chosen_by_a_flag_and_json_shows_the_sidecar(tmp_path, flag, port):
    result = run("-o", tmp_path, flag, "--counters", "--name", "unit", "--json")
    assert result.exit_code == 0
    what = json.loads(result.output)
    assert port in {entry["name"] for entry in what["ports"]}
    assert "count_exp" in {entry["name"] for entry in what["ports"]}
    files = what.pop("files")
    assert files == {
        "verilog": str(tmp_path / "unit.v"),
        "sidecar": str(tmp_path / "unit.json"),
        "core": str(tmp_path / "unit.core"),
        "test": str(tmp_path / "test_unit.py"),
        "vectors": str(tmp_path / "unit_vectors.json"),
        "runner": str(tmp_path / "run_unit.py"),
    }
    assert what == json.loads((tmp_path / "unit.json").read_text())
