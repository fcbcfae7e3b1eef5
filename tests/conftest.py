"""What tests of every room share: the command line run in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from accel.cli import main

ROOT = Path(__file__).parents[1]

settings.register_profile("einrtl", deadline=None)  # a busy machine is no fault
settings.load_profile("einrtl")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def einrtl(capsys: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Return a function that runs ``einrtl ARGUMENTS`` and returns its exit code and output."""

    def run(*arguments: str | Path) -> Finished:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Finished(code=int(ended.value.code or 0), out=out, err=err)

    return run


@pytest.fixture(scope="session")
def simulators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of compiled simulations that the tests of one worker share."""
    return tmp_path_factory.mktemp("simulators")


SMALL_RUN = """\
name: small
model: {models}/all-MiniLM-L6-v2/config.json
batch: 1
sequence_length: 16
cascades: [attention-1pass]
schedule:
  cascade: attention-1pass
  architectures: [fpga-8x8]
softmax:
  max_length: 16
  lanes: 1
  input_format: {{signed: true, width_bits: 16, fraction_bits: 10, rounding: nearest_even, overflow: saturate}}
  output_format: {{signed: false, width_bits: 16, fraction_bits: 16, rounding: nearest_up, overflow: saturate}}
head: head.npz
simulation:
  technology: open-45nm
  pause_probability: 0.3
  seed: 1
"""


@pytest.fixture
def small_run(tmp_path: Path) -> Path:
    """Return a run file for the first 16 tokens of the shipped head, in a folder of its own below ``tmp_path``."""
    folder = tmp_path / "small"
    folder.mkdir()
    with np.load(next((ROOT / "examples" / "data").glob("*.npz"))) as data:
        np.savez(folder / "head.npz", q=data["q"][:16], k=data["k"][:16], metadata=data["metadata"])
    path = folder / "small.yaml"
    path.write_text(SMALL_RUN.format(models=ROOT / "examples" / "models"), encoding="utf-8")
    return path
