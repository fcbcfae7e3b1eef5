"""Damaged files: every command that reads one ends with a message, never with a fault of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.attention_file import load_attention_file
from accel.cases import load_case_file
from accel.cli import EXIT_BAD_INPUT
from accel.codesign import load_design_space
from accel.errors import InputError
from accel.frame import load_frame
from accel.layer import load_layer
from sim.run_file import load_run_file
from tests.accel.onnx_models import Builder
from tests.accel.test_onnx_model import encoder_layer
from tests.conftest import ROOT, Finished

FUZZ = settings(
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""The same damage on every machine, so that a failure can be repeated."""

FEW = settings(FUZZ, max_examples=12)
"""For commands that take a second where the damage does no harm."""

EXAMPLES = ROOT / "examples"
CONFIG = EXAMPLES / "models" / "bert-base-uncased" / "config.json"
DATA = ROOT / "accel" / "data"
CASCADE = DATA / "cascade" / "attention-1pass.ein"

WORDS = [
    "",
    "0",
    "-1",
    "1e999",
    "99999999999999999999",
    "null",
    "[]",
    "{",
    ":",
    "&a *a",
    "\t",
    "é",
    "\x00",
    "m0",
    '"',
    "!!x",
]


@st.composite
def damage(draw: st.DrawFn, text: str) -> str:
    """Return ``text`` with one to three parts cut out, doubled, or replaced by what a reader may stumble over."""
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, max(len(text) - 1, 0)))
        end = min(begin + draw(st.integers(0, 12)), len(text))
        kind = draw(st.sampled_from(["cut", "double", "replace"]))
        part = {"cut": "", "double": 2 * text[begin:end], "replace": draw(st.sampled_from(WORDS))}[kind]
        text = text[:begin] + part + text[end:]
    return text


def must_end_cleanly(finished: Finished) -> None:
    assert finished.code in (0, EXIT_BAD_INPUT), finished
    assert "Traceback" not in finished.err and "please report it" not in finished.err
    if finished.code:
        assert finished.err.startswith(("error: ", "Usage: ")), finished.err


@FUZZ
@given(text=damage(CASCADE.read_text(encoding="utf-8")))
def test_a_cascade(text: str, tmp_path: Path, einrtl: Callable[..., Finished]) -> None:
    file = tmp_path / "c.ein"
    file.write_text(text, encoding="utf-8", newline="")
    must_end_cleanly(einrtl("passes", file, "--json"))


@FEW
@given(text=damage((ROOT / "accel" / "data" / "cascade" / "attention-naive.ein").read_text(encoding="utf-8")))
def test_a_cascade_to_derive(text: str, tmp_path: Path, einrtl: Callable[..., Finished]) -> None:
    file = tmp_path / "c.ein"
    file.write_text(text, encoding="utf-8", newline="")
    must_end_cleanly(einrtl("derive", file, "--json"))


@FUZZ
@given(text=damage(CONFIG.read_text(encoding="utf-8")))
def test_a_configuration(text: str, tmp_path: Path, einrtl: Callable[..., Finished]) -> None:
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8", newline="")
    must_end_cleanly(einrtl("model", file, "--json"))


@FEW
@given(text=damage((ROOT / "accel" / "data" / "arch" / "fpga-8x8.yaml").read_text(encoding="utf-8")))
def test_an_architecture(text: str, tmp_path: Path, einrtl: Callable[..., Finished]) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text, encoding="utf-8", newline="")
    must_end_cleanly(
        einrtl("map", CONFIG, "--arch", file, "--length", "64", "--tile", "m0=8", "--tile", "p0=8", "--json")
    )


@FUZZ
@given(data=st.data())
def test_a_schedule(data: st.DataObject, schedule: str, tmp_path: Path, einrtl: Callable[..., Finished]) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(data.draw(damage(schedule)), encoding="utf-8", newline="")
    must_end_cleanly(einrtl("price", file, CONFIG, "--length", "64", "--json"))


@pytest.fixture(scope="module")
def schedule(tmp_path_factory: pytest.TempPathFactory) -> str:
    from accel.cli import main

    file = tmp_path_factory.mktemp("schedule") / "s.yaml"
    with pytest.raises(SystemExit) as ended:
        main(["map", str(CONFIG), "--arch", "fpga-8x8", "--length", "64", "--save", str(file), "--quiet"])
    assert not ended.value.code
    return file.read_text(encoding="utf-8")


@FUZZ
@given(text=damage((EXAMPLES / "minilm.yaml").read_text(encoding="utf-8")))
def test_a_run_file(text: str, tmp_path: Path) -> None:
    """Read only: a run whose damage does no harm would simulate."""
    file = tmp_path / "run.yaml"
    file.write_text(text, encoding="utf-8", newline="")
    try:
        load_run_file(file)
    except InputError as error:
        assert str(error)


DESCRIPTIONS: dict[str, tuple[Path, Callable[[Path], object]]] = {
    "an attention file with an array": (EXAMPLES / "attention" / "array-4x4.yaml", load_attention_file),
    "an attention file with a reordered unit": (EXAMPLES / "attention" / "reordered.yaml", load_attention_file),
    "cases": (DATA / "cases" / "paper-silent.yaml", load_case_file),
    "a design space": (DATA / "codesign" / "fusemax-area.yaml", load_design_space),
    "a frame": (DATA / "frame" / "m3vit.yaml", lambda file: load_frame(str(file))),
    "a layer": (EXAMPLES / "layers" / "llama-3-8b-decode.yaml", load_layer),
}


@FUZZ
@pytest.mark.parametrize("kind", DESCRIPTIONS)
@given(data=st.data())
def test_a_description(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    """Read only: what the damage does no harm to would simulate or search."""
    example, load = DESCRIPTIONS[kind]
    file = tmp_path / "d.yaml"
    file.write_text(data.draw(damage(example.read_text(encoding="utf-8"))), encoding="utf-8", newline="")
    try:
        load(file)
    except InputError as error:
        assert "d.yaml" in str(error)


@FUZZ
@given(data=st.data())
def test_an_onnx_model(data: st.DataObject, tmp_path: Path, einrtl: Callable[..., Finished]) -> None:
    content = bytearray(_model())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    file = tmp_path / "m.onnx"
    file.write_bytes(bytes(content))
    must_end_cleanly(einrtl("model", file, "--dim", "batch=1", "--dim", "seq=6", "--json"))


def _model() -> bytes:
    builder = Builder()
    return builder.bytes(encoder_layer(builder, builder.input("x", ["batch", "seq", 8])))


@FEW
@given(
    words=st.lists(
        st.sampled_from(
            ["passes", "map", "list", "rtl", "softmax", "--json", "-o", "--lanes", "x", "-1", "", "--arch"]
        ),
        max_size=5,
    )
)
def test_a_command_line(
    words: list[str], tmp_path: Path, einrtl: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    must_end_cleanly(einrtl(*words))
