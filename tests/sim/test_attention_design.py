"""A complete attention design: its emitted host driver does jobs over AXI bus models, on the emitted Verilog."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.attention_array import AttentionArray, Job, actions, compute_cycles
from rtl.design import EmittedDesign, emit_design
from sim.attention_array import pack
from sim.beats import pack as pack_bytes
from sim.cosim import Simulator
from sim.golden.attention_array import attention
from sim.toolchain import find_toolchain
from tests.sim.array_designs import FORMATS, design, inputs

JOBS = (
    (Job(queries=7, keys=9, heads=2), 0.0),
    (Job(queries=3, keys=5, causal=True), 0.4),
    (Job(queries=1, keys=1), 0.0),
    (Job(queries=12, keys=3, heads=1), 0.2),
)


@dataclass(frozen=True, kw_only=True)
class Done:
    """All that one simulation showed."""

    unit: AttentionArray
    emitted: EmittedDesign
    given: list[tuple[Any, ...]]
    found: list[Any]
    seen: Mapping[str, Any]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, simulators: Path) -> Done:
    folder = tmp_path_factory.mktemp("design")
    made = design(
        shape=(2, 2),
        dims=(3, 2),
        max_length=12,
        tiles=(2, 2, 2),
        exp_cycles=3,
        weight_fraction_bits=8,
        element=FORMATS[2],
    )
    unit, source = made.unit, np.random.default_rng(3)
    emitted = emit_design(unit, "attention_design", folder / "out")
    given = [inputs(unit, job, source) for job, _ in JOBS]
    np.savez(
        folder / "jobs.npz",
        **{
            f"{name}{index}": codes for index, each in enumerate(given) for name, codes in zip("qkv", each, strict=True)
        },
    )
    simulator = Simulator.build(
        emitted.files["verilog"], "attention_design", toolchain=find_toolchain(), cache=simulators
    )
    description: dict[str, object] = {
        "constants": str(emitted.files["constants"]),
        "driver": str(emitted.files["driver"]),
        "jobs": [{"causal": job.causal, "pause_probability": pause} for job, pause in JOBS],
    }
    simulator.run("sim.bench.attention_design", folder, description)
    with np.load(folder / "found.npz") as arrays:
        found = [arrays[f"av{index}"] for index in range(len(JOBS))]
    seen = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    return Done(unit=unit, emitted=emitted, given=given, found=found, seen=seen)


def test_the_driver_gets_the_golden_models_bits_with_and_without_pauses(done: Done) -> None:
    for (job, _), given, av in zip(JOBS, done.given, done.found, strict=True):
        np.testing.assert_array_equal(av, attention(done.unit, *given, causal=job.causal), err_msg=str(job))


def test_the_registers_show_counts_and_cycles_of_each_job(done: Done) -> None:
    for (job, pause), report in zip(JOBS, done.seen["reports"], strict=True):
        assert report["actions"] == actions(done.unit, job), job
        assert report["frames"] == job.heads
        assert report["status"] == {"BUSY": False, "DONE": True, "ERROR_LENGTH": False, "ERROR_BUSY": False}
        assert report["cycles"] > compute_cycles(done.unit, job)
        assert pause or report["cycles"] < compute_cycles(done.unit, job) + 800  # the bus models are slow to start


def test_wrong_accesses_are_answered_with_an_error_and_wrong_jobs_refused(done: Done) -> None:
    seen = done.seen
    assert seen["unmapped"] == [2, 2]
    assert (seen["write_only"], seen["read_only"]) == (2, 2)
    rule = "a job must have 1 to 12 queries and keys and 1 to 65535 heads, not"
    assert seen["refused"] == [f"{rule} 0, 1 and 1", f"{rule} 1, 13 and 1", f"{rule} 1, 1 and 0"]
    assert (seen["interrupt_before"], seen["interrupt"], seen["interrupt_cleared"]) == (0, 1, 0)
    assert not any(seen["status_cleared"].values())


class _Constants:
    """Registers that answer with their constants, for a driver without hardware."""

    def __init__(self, emitted: EmittedDesign) -> None:
        self.values = {each["offset_bytes"]: each["constant"] for each in emitted.description["registers"]}

    def read(self, offset: int) -> int:
        return int(self.values[offset] or 0)

    def write(self, offset: int, value: int) -> None:
        raise AssertionError("nothing is written")


def _driver(emitted: EmittedDesign) -> tuple[Any, Any, Any]:
    from sim.bench.attention_design import _module  # imports cocotb, which tests without it should not need

    registers, module = _module(emitted.files["constants"]), _module(emitted.files["driver"])
    return module, registers, _Constants(emitted)


def test_the_driver_packs_as_the_contract_says(done: Done) -> None:
    module, registers, mmio = _driver(done.emitted)
    driver = module.AttentionDriver(mmio, registers)
    for (job, _), given in zip(JOBS, done.given, strict=True):
        beats, packed = pack(done.unit, job, *given), driver.pack(*given)
        formats = (done.unit.query_format, done.unit.key_format, done.unit.value_format)
        for name, element in zip("qkv", formats, strict=True):
            size = -(-element.width_bits // 8)
            mask = np.frombuffer(((1 << element.width_bits) - 1).to_bytes(size, "little"), np.uint8)
            wanted = (pack_bytes(beats[name], element).reshape(-1, size)) & mask
            found = packed[name].reshape(-1, size) & mask
            filler = (beats[name] == element.min_code).reshape(-1)  # lanes beyond the job: anything will do
            np.testing.assert_array_equal(found[~filler], wanted[~filler], err_msg=f"{name} of {job}")


def test_the_driver_refuses_another_design_and_codes_that_do_not_fit(done: Done) -> None:
    module, registers, mmio = _driver(done.emitted)
    driver = module.AttentionDriver(mmio, registers)
    q, k, v = done.given[0]
    with pytest.raises(ValueError, match=r"^q must hold integers of 12 bits$"):
        driver.pack(q * 0 + 2048, k, v)
    with pytest.raises(ValueError, match=r"^k must hold integers of shape \(heads, length, 3\), not \(2, 9, 2\)$"):
        driver.pack(q, k[..., :2], v)
    with pytest.raises(ValueError, match=r"^q, k and v must have as many heads, k and v as many keys$"):
        driver.pack(q, k[:, :1], v)
    mmio.values[registers.ID] = 1
    with pytest.raises(module.DesignError, match=r"^ID must read 0x454e4131, that of an attention design this driver"):
        module.AttentionDriver(mmio, registers)


class _Channel:
    """A DMA channel that moves its buffers at once, and ends a transfer as the hardware's ``tlast`` does."""

    def __init__(self, log: list[str], name: str, frames: list[Any] | None = None) -> None:
        self.log, self.name, self.frames = log, name, frames

    def transfer(self, buffer: Any) -> None:
        self.log.append(f"{self.name} {len(buffer)}")
        if self.frames is not None:
            buffer[:] = self.frames.pop(0)

    def wait(self) -> None:
        self.log.append(f"{self.name} wait")


class _Buffer(np.ndarray[Any, Any]):
    freed = 0

    def flush(self) -> None: ...
    def invalidate(self) -> None: ...
    def freebuffer(self) -> None:
        _Buffer.freed += 1


def test_dma_streams_receive_head_by_head_and_give_all_buffers_back(
    done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, registers, mmio = _driver(done.emitted)
    given, log, made = done.given[0], [], []
    job, unit = JOBS[0][0], done.unit
    driver = module.AttentionDriver(mmio, registers)
    size = driver.output_bytes(1, job.queries)
    golden = attention(unit, *given)
    # What the hardware would send: each head's beats, packed by the test's own reading of the contract.
    step = unit.queries_per_tile
    frames = []
    for head in golden:
        beats = [
            np.pad(head[at : at + step], ((0, unit.columns - len(head[at : at + step])), (0, 0))).T
            for at in range(0, job.queries, step)
        ]
        frames.append(pack_bytes(np.concatenate(beats).reshape(-1, unit.columns), unit.output_format).reshape(-1))
    frames = [frame & np.frombuffer(b"\xff\x0f" * (size // 2), np.uint8) for frame in frames]  # sign: see below
    frames = [np.where(np.arange(size) % 2 & (frame >> 3), frame | 0xF0, frame) for frame in frames]

    def allocate(shape: tuple[int], dtype: Any) -> Any:
        made.append(np.zeros(shape, dtype).view(_Buffer))
        return made[-1]

    class Dma:
        def __init__(self, name: str) -> None:
            self.sendchannel, self.recvchannel = _Channel(log, name), _Channel(log, "av", frames)

    streams = module.DmaStreams({name: Dma(name) for name in ("q", "k", "v", "av")}, allocate)
    driver = module.AttentionDriver(mmio, registers, streams)
    monkeypatch.setattr(mmio, "write", lambda offset, value: None, raising=False)
    done_mask = registers.STATUS_DONE_MASK
    monkeypatch.setattr(
        mmio, "read", lambda offset: done_mask if offset == registers.STATUS else int(mmio.values[offset] or 0)
    )
    av, _ = driver.run(*given)
    np.testing.assert_array_equal(av, golden)
    assert [line for line in log if line.startswith("av")] == [f"av {size}", "av wait"] * job.heads
    assert log[0] == f"av {size}" and log[-3:] == ["q wait", "k wait", "v wait"]
    assert _Buffer.freed == len(made) == 3 + job.heads
