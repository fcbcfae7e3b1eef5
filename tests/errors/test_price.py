"""Wrong input to ``einrtl price``, ``explain`` and ``events``, each with the exact text that a user sees."""

import json

import pytest

from accel import spec
from accel.schedule import Schedule, load_template

PLAN = load_template("interleaved-1pass").plan
CONFIG = {
    "model_type": "bert",
    "hidden_size": 128,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
}
SAVED = Schedule(cascade="attention-1pass", architecture="fpga-8x8", tiles={"m0": 8, "p0": 8, "p1": 2}, plan=PLAN)


@pytest.fixture
def refused(einrtl, tmp_path, monkeypatch):
    """Return a function that prices the saved schedule with one piece of its text changed, and returns the message."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))

    def run(old="", new="", *options, command="price"):
        text = spec.dump(SAVED)
        assert old in text
        (tmp_path / "schedule.yaml").write_text(text.replace(old, new, 1))
        finished = einrtl(command, "schedule.yaml", "config.json", *options)
        assert (finished.code, finished.out) == (2, "")
        assert "Traceback" not in finished.err
        return finished.err

    return run


ILLEGAL = {
    "a buffer too small": (
        ("p1: 2", "p1: 60"),
        (
            "error: the buffer must hold 1014784 bits (Q 491520, K 8192, V 8192, RM 7680, RD 7680, RNV 491520), but "
            "has 524288 for them: 490496 too few; lower p1 to 30\n"
        ),
    ),
    "registers too few": (
        ("m0: 8", "m0: 80"),
        (
            "error: a PE of array '2d' must hold 30 registers (BQK 20, SLN 10), but has 13 for them: 17 too few; lower "
            "m0 to 32\n"
        ),
    ),
    "an Einsum too early": (
        ("SLN: 1", "SLN: 0"),
        (
            "error: 'SLN' must run after 'RM' of the same tile, from which it reads RM[p,m1+1], but its tile offset is "
            "0 and must be at least 1; raise the offset of 'SLN' to 1\n"
        ),
    ),
    "a machine that is not packaged": (
        ("architecture: fpga-8x8", "architecture: mine"),
        (
            "error: schedule.yaml is for architecture 'mine', which must be packaged or be given as a file; add --arch "
            "FILE.yaml\n"
        ),
    ),
    "a cascade that is not packaged": (
        ("cascade: attention-1pass", "cascade: mine"),
        (
            "error: schedule.yaml is for cascade 'mine', which must be packaged or be given as a file; add --cascade "
            "FILE.ein\n"
        ),
    ),
    "a tile size of 0": (
        ("m0: 8", "m0: 0"),
        "error: schedule.yaml:4:3: tile size m0 must be at least 1, not 0; use 1\n",
    ),
}


@pytest.mark.parametrize("command", ["price", "explain", "events"])
@pytest.mark.parametrize("case", ILLEGAL)
def test_a_schedule_that_cannot_run_is_refused_with_the_way_out(case, command, refused):
    change, expected = ILLEGAL[case]
    assert refused(*change, command=command) == expected


def test_another_machine_than_the_schedules_own_is_refused(refused):
    assert refused("", "", "--arch", "fusemax-cloud") == (
        "error: the schedule must be for architecture 'fusemax-cloud', but is for 'fpga-8x8'; price it with "
        "architecture 'fpga-8x8'\n"
    )


def test_a_table_in_no_folder_is_refused(refused):
    assert refused("", "", "--csv", "nowhere/at/all.csv") == (
        "error: nowhere/at/all.csv must be writable: No such file or directory; check the folder\n"
    )


def test_a_workload_too_large_to_execute_is_refused(refused):
    assert refused("", "", command="events") == (
        "error: an execution by events must have at most 20,000,000 multiplications, not 67,108,864; use --length 279\n"
    )


def test_a_missing_schedule_is_refused(einrtl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finished = einrtl("price", "nowhere.yaml", "config.json")
    assert finished.err == "error: nowhere.yaml must be a readable file: No such file or directory; check the path\n"
