"""What ``einrtl run`` says to wrong input: exact text, exit code 2, nothing on standard output, no result folder."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sim.cli.run
from sim.toolchain import find_toolchain
from tests.conftest import Finished

Command = Callable[..., Finished]


def refuse(einrtl: Command, path: Path, *options: str | Path, code: int = 2) -> str:
    """Run the file, check that it is refused cleanly, and return the message with the folder's name cut."""
    out = path.parent.parent / "out"
    finished = einrtl("run", path, "-o", out, *options)
    assert (finished.code, finished.out) == (code, "")
    assert not out.exists()
    assert "Traceback" not in finished.err
    lines = [line for line in finished.err.splitlines() if not line.startswith("[")]
    return "\n".join(lines).replace(f"{path.parent}/", "")


YAML_CASES = {
    "unknown key": (
        "batch: 1",
        "batch: 1\nbatchsize: 2",
        "error: small.yaml:4:1: 'batchsize' is not a known key; did you mean 'batch'?",
    ),
    "duplicate key": (
        "batch: 1",
        "batch: 1\nbatch: 2",
        "error: small.yaml:4:1: key 'batch' must stand once, but stands on line 3 already; remove one of the two",
    ),
    "missing key": (
        "batch: 1\n",
        "",
        "error: small.yaml:1:1: 'batch' is missing; add batch: VALUE",
    ),
    "wrong type": (
        "batch: 1",
        "batch: one",
        "error: small.yaml:3:1: 'batch' must be a whole number, not 'one'",
    ),
    "no batch": (
        "batch: 1",
        "batch: 0",
        "error: small.yaml:3:1: batch must be at least 1, not 0; use 1 or more",
    ),
    "row longer than the unit": (
        "max_length: 16",
        "max_length: 12",
        "error: small.yaml:10:3: softmax.max_length must be at least sequence_length (16), not 12; use max_length: 16",
    ),
    "pause probability of 1": (
        "pause_probability: 0.3",
        "pause_probability: 1.0",
        (
            "error: small.yaml:17:3: simulation: pause_probability must be above 0 and at most 0.95, not 1.0; "
            "0.3 gives a mix of bursts and pauses"
        ),
    ),
    "no architecture": (
        "[fpga-8x8]",
        "[]",
        "error: small.yaml:8:3: schedule: architectures must name at least one; see einrtl list architectures",
    ),
    "unknown preset": (
        "[fpga-8x8]",
        "[fpga-8x9]",
        "error: 'fpga-8x9' is not the name of an architecture; did you mean 'fpga-8x8'? a file needs its .yaml ending",
    ),
    "unknown cascade": (
        "cascades: [attention-1pass]",
        "cascades: [attention-1pas]",
        (
            "error: no packaged cascade is named 'attention-1pas'; did you mean 'attention-1pass'? "
            "a file is given by its path, FILE.ein"
        ),
    ),
    "unknown cost table": (
        "technology: open-45nm",
        "technology: open-44nm",
        "error: 'open-44nm' is not the name of a cost table; did you mean 'open-45nm'? a file needs its .yaml ending",
    ),
    "no such array file": (
        "head: head.npz",
        "head: tail.npz",
        "error: tail.npz must be a readable array file: No such file or directory; check the path",
    ),
    "another sequence length than the arrays have": (
        "sequence_length: 16",
        "sequence_length: 8",
        (
            "error: head.npz: array 'q' must have shape (8, 32) (sequence_length, head dimension), not (16, 32); "
            "change sequence_length or the model\n"
            "error: head.npz: array 'k' must have shape (8, 32) (sequence_length, head dimension), not (16, 32); "
            "change sequence_length or the model"
        ),
    ),
    "several at once": (
        "batch: 1\nsequence_length: 16",
        "batch: 1.5\nsequence_lenght: 16",
        (
            "error: small.yaml:1:1: 'sequence_length' is missing; add sequence_length: VALUE\n"
            "error: small.yaml:3:1: 'batch' must be a whole number, not 1.5\n"
            "error: small.yaml:4:1: 'sequence_lenght' is not a known key; did you mean 'sequence_length'?"
        ),
    ),
}


@pytest.mark.parametrize("name", YAML_CASES)
def test_a_wrong_run_file(name: str, einrtl: Command, small_run: Path) -> None:
    right, wrong, message = YAML_CASES[name]
    text = small_run.read_text()
    assert right in text
    small_run.write_text(text.replace(right, wrong))
    assert refuse(einrtl, small_run) == message


def test_a_cascade_with_a_rank_that_has_no_size(einrtl: Command, small_run: Path) -> None:
    (small_run.parent / "odd.ein").write_text(
        "cascade odd\n  input  Q[p,e]  K[m,e]  W[m,g]\n  S[p,m] = Q[p,e] * K[m,e]\n  O[p,g] = S[p,m] * W[m,g]\n"
    )
    text = small_run.read_text().replace("cascades: [attention-1pass]", f"cascades: [{small_run.parent / 'odd.ein'}]")
    small_run.write_text(text)
    assert refuse(einrtl, small_run) == (
        "error: cascade odd: rank 'g' has no size; a run knows the sizes E, M, P; rename the rank"
    )


def test_a_cascade_without_keys(einrtl: Command, small_run: Path) -> None:
    small_run.write_text(small_run.read_text().replace("cascades: [attention-1pass]", "cascades: [pedagogical-2pass]"))
    assert refuse(einrtl, small_run) == (
        "error: cascade 'pedagogical-2pass' must have the key rank 'm' to be compared; see einrtl list cascades"
    )


def arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of the small head."""
    with np.load(path.parent / "head.npz") as data:
        return {name: np.array(data[name]) for name in ("q", "k")}


def test_arrays_with_nan(einrtl: Command, small_run: Path) -> None:
    head = arrays(small_run)
    head["k"][3, 4] = np.nan
    head["k"][5, 6] = np.inf
    np.savez(small_run.parent / "head.npz", **head)
    assert refuse(einrtl, small_run) == (
        "error: head.npz: array 'k' must be finite, but k[3, 4] is nan (2 such values); remove them"
    )


def test_arrays_of_a_wrong_shape(einrtl: Command, small_run: Path) -> None:
    head = arrays(small_run)
    np.savez(small_run.parent / "head.npz", q=head["q"], k=head["k"][:, :31])
    assert refuse(einrtl, small_run) == (
        "error: head.npz: array 'k' must have shape (16, 32) (sequence_length, head dimension), not (16, 31); "
        "change sequence_length or the model"
    )


def test_arrays_of_integers(einrtl: Command, small_run: Path) -> None:
    head = arrays(small_run)
    np.savez(small_run.parent / "head.npz", q=head["q"], k=head["k"].astype(np.int32))
    assert refuse(einrtl, small_run) == (
        "error: head.npz: array 'k' must hold real numbers, not int32; save it as float32"
    )


def test_a_missing_array(einrtl: Command, small_run: Path) -> None:
    np.savez(small_run.parent / "head.npz", q=arrays(small_run)["q"])
    assert refuse(einrtl, small_run) == "error: head.npz must hold an array 'k', but holds q"


def npy() -> bytes:
    """A file with one array and no names."""
    stream = io.BytesIO()
    np.save(stream, np.zeros((16, 32)))
    return stream.getvalue()


@pytest.mark.parametrize("content", [b"", b"no array file", b"PK\x03\x04 truncated", npy()])
def test_a_file_that_is_no_array_file(content: bytes, einrtl: Command, small_run: Path) -> None:
    (small_run.parent / "head.npz").write_bytes(content)
    assert refuse(einrtl, small_run) == (
        "error: head.npz must be an array file in .npz format without pickled objects; write it with numpy.savez"
    )


def test_no_run_file(einrtl: Command, small_run: Path) -> None:
    assert refuse(einrtl, small_run.parent / "none.yaml") == (
        "error: none.yaml must be a readable file: No such file or directory; check the path"
    )


def test_missing_simulator_tools(einrtl: Command, small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim.cli.run, "find_toolchain", lambda: find_toolchain(search_path=""))
    assert refuse(einrtl, small_run, code=3) == (
        "error: make must be installed to build the simulation; run: apt install make\n"
        "error: a C++ compiler (c++) must be installed to build the simulation; run: apt install g++"
    )


def test_an_output_folder_with_other_files(einrtl: Command, small_run: Path) -> None:
    finished = einrtl("run", small_run, "-o", small_run.parent)
    assert finished.code == 2
    assert finished.err == (
        f"error: the output folder {small_run.parent} must be empty or hold an earlier result, but has other files; "
        "choose another with -o\n"
    )
    assert small_run.exists()


def test_an_output_that_is_a_file(einrtl: Command, small_run: Path) -> None:
    finished = einrtl("run", small_run, "-o", small_run)
    assert (finished.code, finished.err) == (
        2,
        f"error: the output {small_run} must be a folder, but is a file; choose another with -o\n",
    )


def test_a_command_that_does_not_exist(einrtl: Command) -> None:
    finished = einrtl("rum", "examples/minilm.yaml")
    assert finished.code == 2
    assert finished.err.splitlines()[-1] == "Error: 'rum' is not a command; did you mean 'run'?"


def test_a_kind_that_cannot_be_listed(einrtl: Command) -> None:
    finished = einrtl("list", "cascade")
    assert (finished.code, finished.err) == (
        2,
        "error: a kind to list must be known, not 'cascade'; did you mean 'cascades'?\n",
    )
