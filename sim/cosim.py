"""Runs emitted Verilog under cocotb on Verilator and returns what was seen at its ports."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError, SimulationError, ToolMissingError
from accel.softmax_unit import SoftmaxUnit
from sim.toolchain import Toolchain

__all__ = ["WAVE_FORMATS", "Observation", "Scenario", "Simulator", "check_waves", "simulate_softmax"]

BUILD_TIMEOUT_S = 900
RUN_TIMEOUT_S = 900

WAVE_FORMATS = ("vcd", "fst")
"""Formats of recorded waveforms: the endings of their files."""


def check_waves(path: Path | None) -> str | None:
    """Return the format of a file of waveforms; None without one.

    Raises
    ------
    InputError
        Its ending is none of ``WAVE_FORMATS``, or its folder does not exist.
    """
    if path is None:
        return None
    kind = path.suffix.lower().removeprefix(".")
    if kind not in WAVE_FORMATS:
        raise InputError(f"waveforms must go to a .vcd or .fst file, not {path.name!r}", hint="rename it")
    if not path.parent.is_dir():
        raise InputError(f"{path} must be in a folder, but {path.parent} is none", hint="make it first")
    return kind


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """How the ports behave in one run over all rows.

    Parameters
    ----------
    name : str
        For messages and reports.
    source_pause_probability, sink_pause_probability : float
        Chance that the input offers nothing, or the output accepts nothing, in a cycle; 0 means never.
    seed : int
        Of the pauses.
    """

    name: str
    source_pause_probability: float
    sink_pause_probability: float
    seed: int

    @property
    def waits(self) -> bool:
        """Whether any port ever waits for its neighbour."""
        return self.source_pause_probability > 0 or self.sink_pause_probability > 0


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What one scenario showed.

    Parameters
    ----------
    scenario : Scenario
        What was run.
    rows : tuple of ndarray[row length], int64
        Output codes.
    in_cycles, out_cycles : ndarray[beats], int64
        Cycle of each accepted input beat and of each delivered output beat, counted from the first accepted input beat.
    actions : dict of str to int
        What the hardware's counters counted.
    overrun : bool
        The unit saw a row that was too long.
    """

    scenario: Scenario
    rows: tuple[NDArray[np.int64], ...]
    in_cycles: NDArray[np.int64]
    out_cycles: NDArray[np.int64]
    actions: dict[str, int]
    overrun: bool

    @property
    def total_cycles(self) -> int:
        """Cycles from the first beat in to the last beat out, both counted."""
        return int(self.out_cycles[-1]) + 1


@dataclass(frozen=True, kw_only=True)
class Simulator:
    """A compiled simulation of one Verilog file.

    Parameters
    ----------
    top : str
        Top module.
    build_dir : Path
        Folder with the compiled program.
    build_seconds : float
        How long the build took; 0 if it was found built.
    waves : str, optional
        One of ``WAVE_FORMATS`` if runs record waveforms.
    """

    toolchain: Toolchain
    top: str
    build_dir: Path
    build_seconds: float
    waves: str | None = None

    @classmethod
    def build(
        cls, verilog: Path, top: str, *, toolchain: Toolchain, cache: Path, waves: str | None = None
    ) -> Simulator:
        """Compile ``verilog``, or take the compiled simulation of the same text from ``cache``.

        Raises
        ------
        SimulationError
            The Verilog does not compile; the message ends with the tool's last lines.
        ToolMissingError
            The headers that .fst files need are not there.
        InputError
            ``cache`` cannot be written.
        """
        text = verilog.read_bytes()
        kind = "\0".join((top, str(toolchain.verilator_root), waves or ""))
        digest = hashlib.sha256(text + kind.encode()).hexdigest()[:16]
        final = cache.resolve() / digest
        if (final / top).is_file():
            return cls(toolchain=toolchain, top=top, build_dir=final, build_seconds=0.0, waves=waves)
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            # Built aside and renamed: a build that was killed is never taken for a finished one.
            folder = Path(tempfile.mkdtemp(prefix=f"{digest}-", dir=final.parent))
        except OSError as error:
            raise InputError(
                f"the build folder {cache} must be writable: {error.strerror}", hint="choose another with --build-dir"
            ) from None
        started = time.perf_counter()
        try:
            source = folder / f"{top}.v"
            source.write_bytes(text)
            job = {"verilog": str(source), "top": top, "build_dir": str(folder), "waves": waves}
            try:
                _worker("build", job, folder, toolchain, BUILD_TIMEOUT_S)
            except SimulationError as error:
                if waves == "fst" and ("lz4.h" in str(error) or "zlib.h" in str(error)):
                    raise ToolMissingError(
                        "waveforms in .fst need the headers of lz4 and zlib; "
                        "install them (apt install liblz4-dev zlib1g-dev), or record a .vcd file"
                    ) from None
                raise
            try:
                folder.rename(final)
            except OSError:
                # Another run finished the same build meanwhile, and may be using it: take that one.
                if not (final / top).is_file():
                    raise InputError(
                        f"the build folder {final} must be absent or hold a finished build", hint="remove it"
                    ) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        seconds = time.perf_counter() - started
        return cls(toolchain=toolchain, top=top, build_dir=final, build_seconds=seconds, waves=waves)

    def run(self, test_module: str, folder: Path, job: dict[str, object]) -> None:
        """Run the cocotb tests of ``test_module`` in ``folder``; they read ``job`` and write their observations there.

        Raises
        ------
        SimulationError
            A test failed or the simulation did not end in time.
        """
        settings = {
            "top": self.top,
            "build_dir": str(self.build_dir),
            "test_module": test_module,
            "test_dir": str(folder),
            "waves": self.waves,
        }
        _worker("run", {**settings, **job}, folder, self.toolchain, RUN_TIMEOUT_S)


def _worker(step: str, job: Mapping[str, object], folder: Path, toolchain: Toolchain, timeout_s: int) -> None:
    """Run ``sim.worker`` as a process of its own, its output in a log file beside the job."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    if not (tools / "verilator").exists():
        (tools / "verilator").symlink_to(toolchain.verilator)
    path = folder / f"{step}.json"
    path.write_text(
        json.dumps(
            {
                "tools_dir": str(tools),
                "verilator_root": str(toolchain.verilator_root),
                "ccache": toolchain.ccache,
                **job,
            }
        ),
        encoding="utf-8",
    )
    log = folder / f"{step}.log"
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "sim.worker", step, str(path)],
            stdout=stream,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            code = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            process.kill()
            process.wait()
    problem = folder / "problem.txt"
    if problem.exists():
        raise SimulationError(problem.read_text(encoding="utf-8"))
    if code != 0:
        tail = "\n".join(f"  {line}" for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
        what = f"did not end within {timeout_s} s" if code == -1 else "failed"
        raise SimulationError(f"the {step} of the simulation {what}; its last lines:\n{tail}")


def simulate_softmax(
    simulator: Simulator,
    unit: SoftmaxUnit,
    rows: Sequence[NDArray[np.int64]],
    scenarios: Sequence[Scenario],
    waves: Path | None = None,
) -> tuple[Observation, ...]:
    """Send rows of codes through the simulated AXI4-Stream softmax, once for each scenario, with one reset in all.

    Parameters
    ----------
    simulator : Simulator
        Of the emitted ``softmax_axis``.
    unit : SoftmaxUnit
        Its parameters.
    rows : sequence of ndarray[row length], int64
        Codes of the input format.
    scenarios : sequence of Scenario
        Run in order; without a reset between them, so that state left over shows.
    waves : Path, optional
        File for the waveforms of all scenarios, if ``simulator`` records them.

    Raises
    ------
    SimulationError
        A stream stalled, or the simulation failed.
    """
    with tempfile.TemporaryDirectory(prefix="einrtl-") as name:
        folder = Path(name)
        lengths = np.array([len(row) for row in rows], np.int64)
        np.savez(folder / "rows.npz", codes=np.concatenate(list(rows)), lengths=lengths)
        job: dict[str, object] = {
            "lanes": unit.lanes,
            "input_bytes": -(-unit.input_format.width_bits // 8),
            "output_bytes": -(-unit.output_format.width_bits // 8),
            "output_signed": unit.output_format.signed,
            "scenarios": [vars(scenario) for scenario in scenarios],
        }
        simulator.run("sim.bench.softmax_axis", folder, job)
        if waves is not None:
            shutil.move(folder / f"dump.{simulator.waves}", waves)
        return tuple(_observation(folder, scenario) for scenario in scenarios)


def _observation(folder: Path, scenario: Scenario) -> Observation:
    with np.load(folder / f"{scenario.name}.npz") as seen:
        codes, lengths = seen["codes"], seen["lengths"]
        counts = dict(zip(seen["action_names"].tolist(), seen["action_counts"].tolist(), strict=True))
        return Observation(
            scenario=scenario,
            rows=tuple(np.split(codes, np.cumsum(lengths)[:-1])),
            in_cycles=seen["in_cycles"],
            out_cycles=seen["out_cycles"],
            actions={str(name): int(count) for name, count in counts.items()},
            overrun=bool(seen["overrun"]),
        )
