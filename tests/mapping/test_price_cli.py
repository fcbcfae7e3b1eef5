"""``einrtl price``: the price of a saved schedule, as tables, JSON and comma-separated values."""

import csv
import io
import json
import math

import pytest

from accel import spec
from accel.arch import load_architecture
from accel.cascade import load_cascade
from accel.result import Result
from accel.schedule import load_schedule
from accel.workload import read_hugging_face_config
from mapping.export import ACTION_HEADS, actions_csv
from mapping.model import price

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 64,
    "max_position_embeddings": 48,
}


@pytest.fixture
def saved(einrtl, tmp_path, monkeypatch):
    """Return the name of a saved schedule and of the configuration that it was made for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert einrtl("map", "config.json", "--arch", "fpga-8x8", "--save", "schedule.yaml").code == 0
    return "schedule.yaml", "config.json"


def expected(batch=1, length=None, queries=None):
    sizes = read_hugging_face_config("config.json").workload(batch=batch, length=length, queries=queries)
    architecture = load_architecture("fpga-8x8")
    return price(load_cascade("attention-1pass"), architecture, load_schedule("schedule.yaml"), sizes)


def test_a_saved_schedule_has_the_price_that_the_search_found(einrtl, saved):
    searched = json.loads(einrtl("map", "config.json", "--arch", "fpga-8x8", "--json").out)["result"]
    finished = einrtl("price", *saved, "--json")
    assert (finished.code, finished.err) == (0, "")
    assert json.loads(finished.out) == searched


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        (("--batch", "3"), {"batch": 3}),
        (("--length", "100"), {"length": 100}),
        (("--length", "70", "--queries", "1"), {"length": 70, "queries": 1}),
    ],
)
def test_the_options_set_the_workload(einrtl, saved, options, sizes):
    finished = einrtl("price", *saved, *options, "--json")
    assert Result.from_dict(json.loads(finished.out)) == expected(**sizes)


def test_the_csv_file_has_every_action_and_adds_up(einrtl, saved, tmp_path):
    finished = einrtl("price", *saved, "--csv", "actions.csv")
    assert (finished.code, finished.err) == (0, "")
    assert "Wrote actions.csv" in finished.out
    text = (tmp_path / "actions.csv").read_text()
    result = expected()
    assert text == actions_csv(result)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == ACTION_HEADS
    assert len(rows) == len(result.actions)
    assert math.fsum(float(row["energy_pj"]) for row in rows) == result.energy_pj
    fetched = [row for row in rows if row["unit"] == "dram" and row["tensor"] == "Q"]
    assert [(row["einsum"], int(row["count"])) for row in fetched] == [("", result.count("dram", "read", "Q"))]


def test_a_schedule_for_a_machine_of_ones_own_is_priced_with_its_file(einrtl, saved, tmp_path):
    for name, folder, key in (("mine.yaml", "fpga-8x8", "architecture: fpga-8x8"),):
        (tmp_path / name).write_text(spec.dump(load_architecture(folder)).replace("name: fpga-8x8", "name: mine", 1))
        schedule = tmp_path / "schedule.yaml"
        schedule.write_text(schedule.read_text().replace(key, "architecture: mine"))
    finished = einrtl("price", *saved, "--arch", "mine.yaml", "--json")
    assert (finished.code, finished.err) == (0, "")
    assert json.loads(finished.out)["schedule"]["architecture"] == "mine"


def test_the_tables_name_their_accounting(einrtl, saved):
    finished = einrtl("price", *saved)
    assert (finished.code, finished.err) == (0, "")
    for text in ("limited by", "DRAM traffic", "Accounting: as published"):
        assert text in finished.out
