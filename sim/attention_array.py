"""The spatial attention array in compiled simulation: streams packed, driven and unpacked, cycles and actions read."""

from __future__ import annotations

import ctypes
import hashlib
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.attention_array import ACTIONS, START_CYCLES, AttentionArray, Job, check_job, first_to_last_cycles
from accel.errors import SimulationError
from rtl.attention.array import emit_array
from sim import beats as bytes_of
from sim.compiled import ALWAYS, Rhythm
from sim.library import SHARES, build_library, load_library
from sim.toolchain import Toolchain

__all__ = ["ArrayRun", "CompiledArray", "expected_cycles", "pack", "unpack"]

PATIENCE_CYCLES = 20_000
DRAIN_CYCLES = 64
"""Cycles that are run after a job, to see that no further beat comes."""

_SHIM = Path(__file__).with_name("attention_shim.cpp")
_ENDINGS = {
    1: f"no port moved for {PATIENCE_CYCLES} cycles",
    3: "port m_axis must keep tvalid until tready, but took it back",
    4: "port m_axis must keep its payload until tready, but changed it",
    5: "port m_axis must deliver as many beats as the job has, but offered another",
}

Codes = NDArray[np.int64]


def _beats(codes: Codes, blocks: Sequence[tuple[int, int, int]], lanes: int, filler: int) -> Codes:
    """Return beats[beats, lanes] of ``codes[heads, length, dim]``: for each (head, begin, end) one beat a feature."""
    dim = codes.shape[2]
    found = np.full((len(blocks), dim, lanes), filler, np.int64)
    for at, (head, begin, end) in enumerate(blocks):
        found[at, :, : end - begin] = codes[head, begin:end].T
    return found.reshape(len(blocks) * dim, lanes)


def _query_blocks(unit: AttentionArray, job: Job) -> list[tuple[int, int, int]]:
    p0 = unit.queries_per_tile
    return [(head, at, min(at + p0, job.queries)) for head in range(job.heads) for at in range(0, job.queries, p0)]


def _key_blocks(unit: AttentionArray, job: Job) -> list[tuple[int, int, int]]:
    m0 = unit.keys_per_tile
    groups = -(-job.queries // (unit.queries_per_tile * unit.query_tiles)) if job.keys > m0 else 1
    one = [
        (turn, min(turn + unit.rows, key + m0, job.keys))
        for key in range(0, job.keys, m0)
        for turn in range(key, min(key + m0, job.keys), unit.rows)
    ]
    return [(head, *block) for head in range(job.heads) for _ in range(groups) for block in one]


def pack(unit: AttentionArray, job: Job, q: Codes, k: Codes, v: Codes) -> dict[str, Codes]:
    """Return the beats of the input streams, in the order of the contract.

    Parameters
    ----------
    unit : AttentionArray
        The array.
    job : Job
        The job; its lengths and heads are those of the arrays.
    q, k, v : ndarray[heads, queries or keys, E or F], int64
        Codes.

    Returns
    -------
    dict of str to ndarray[beats, lanes], int64
        ``q``, ``k`` and ``v``; lanes beyond the job hold the smallest code, which must not matter.
    """
    keys = _key_blocks(unit, job)
    return {
        "q": _beats(q, _query_blocks(unit, job), unit.columns, unit.query_format.min_code),
        "k": _beats(k, keys, unit.rows, unit.key_format.min_code),
        "v": _beats(v, keys, unit.rows, unit.value_format.min_code),
    }


def unpack(unit: AttentionArray, job: Job, beats: Codes) -> Codes:
    """Return AV[heads, queries, F] of the beats[beats, lanes] of a job, in the order of the contract."""
    found = np.zeros((job.heads, job.queries, unit.value_dim), np.int64)
    blocks = _query_blocks(unit, job)
    for block, (head, begin, end) in zip(beats.reshape(len(blocks), unit.value_dim, -1), blocks, strict=True):
        found[head, begin:end] = block[:, : end - begin].T
    return found


def expected_cycles(unit: AttentionArray, job: Job) -> int:
    """Return the cycles from the last beat that the first epoch needs to the last beat of AV, no port pausing."""
    return START_CYCLES + first_to_last_cycles(unit, job)


@dataclass(frozen=True, kw_only=True)
class ArrayRun:
    """What one job showed.

    Parameters
    ----------
    av : ndarray[heads, queries, F], int64
        Codes of the output format.
    cycles : int
        From accepting the last beat that the first epoch needs to delivering the last beat of AV.
    wait_cycles : int
        Cycles in which an epoch waited for a port.
    actions : dict of str to int
        Each of ``ACTIONS``, as counted by the hardware.
    simulated_cycles : int
        All cycles that were run.
    seconds : float
        How long they took.
    """

    av: Codes
    cycles: int
    wait_cycles: int
    actions: dict[str, int]
    simulated_cycles: int
    seconds: float

    @property
    def simulated_cycles_per_second(self) -> float:
        """Speed of the simulation."""
        return self.simulated_cycles / self.seconds


class _Job(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("queries", "keys", "heads", "causal"))


class _Source(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("cycle", ctypes.c_void_p), ("beats", ctypes.c_int64))


class _Sink(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("data", "keep", "last", "cycle")),
        ("beats", ctypes.c_int64),
    )


class _Rhythm(ctypes.Structure):
    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("offer_share", ctypes.c_uint32),
        ("take_share", ctypes.c_uint32),
        ("patience_cycles", ctypes.c_int64),
        ("drain_cycles", ctypes.c_int64),
    )


class _Seen(ctypes.Structure):
    _fields_ = (("delivered", ctypes.c_int64), ("cycles", ctypes.c_int64), ("accepted", ctypes.c_int64 * 3))


@dataclass(frozen=True, kw_only=True)
class CompiledArray:
    """An array, emitted, compiled and loaded; state lasts from job to job until ``reset``.

    Parameters
    ----------
    unit : AttentionArray
        Its parameters.
    verilog : Path
        The emitted file.
    verilog_sha256 : str
        Digest of its text, as the sidecar has it.
    build_seconds : float
        How long emitting and compiling took; 0 if the library was found built.
    """

    unit: AttentionArray
    verilog: Path
    verilog_sha256: str
    build_seconds: float
    _status: tuple[str, ...] = field(repr=False)
    _calls: Any = field(repr=False)
    _model: Any = field(repr=False)

    @classmethod
    def build(cls, unit: AttentionArray, *, toolchain: Toolchain, cache: Path) -> CompiledArray:
        """Emit and compile an array, or take both from ``cache``, and reset it.

        Parameters
        ----------
        unit : AttentionArray
            The array.
        toolchain : Toolchain
            Verilator and the compiler.
        cache : Path
            Folder of Verilog and libraries, made if missing.

        Raises
        ------
        InputError
            The plan reads a value too early, or ``cache`` cannot be written.
        SimulationError
            The Verilog does not compile; the message ends with the tool's last lines.
        """
        started = time.perf_counter()
        emitted = emit_array(unit, "attention_array", cache / hashlib.sha256(repr(unit).encode()).hexdigest()[:16])
        status = tuple(
            port["name"]
            for port in emitted.description["ports"]
            if not port["name"].startswith(("s_axis_", "m_axis_", "job_")) and port["name"] not in ("aclk", "aresetn")
        )
        glue, top = _glue(emitted.description, status), emitted.description["top"]
        library, seconds = build_library(emitted.verilog, top, glue=glue, shim=_SHIM, toolchain=toolchain, cache=cache)
        calls = load_library(library)
        model = ctypes.c_void_p(calls.einrtl_new())
        array = cls(
            unit=unit,
            verilog=emitted.verilog,
            verilog_sha256=emitted.description["verilog_sha256"],
            build_seconds=time.perf_counter() - started if seconds else 0.0,
            _status=status,
            _calls=calls,
            _model=model,
        )
        weakref.finalize(array, calls.einrtl_delete, model)
        array.reset()
        return array

    def reset(self) -> None:
        """Hold reset for four cycles."""
        self._calls.einrtl_reset(self._model)

    def run(
        self, q: ArrayLike, k: ArrayLike, v: ArrayLike, *, causal: bool = False, rhythm: Rhythm = ALWAYS
    ) -> ArrayRun:
        """Do one job, and check on the way that the output keeps the rules of its port.

        Parameters
        ----------
        q, k, v : ndarray[heads, queries or keys, E or F], int
            Codes of the array's formats; Q scaled by 1 / sqrt(E).
        causal : bool
            Whether query p sees keys 0 to p only.
        rhythm : Rhythm
            Pauses of the ports.

        Raises
        ------
        InputError
            A length is out of range.
        SimulationError
            Nothing moves any more, or the output broke a rule.
        """
        unit = self.unit
        given = [np.asarray(each, np.int64) for each in (q, k, v)]
        job = Job(queries=given[0].shape[1], keys=given[1].shape[1], heads=given[0].shape[0], causal=causal)
        check_job(unit, job)
        packed = pack(unit, job, *given)
        formats = (unit.query_format, unit.key_format, unit.value_format)
        data = [bytes_of.pack(packed[name], element) for name, element in zip("qkv", formats, strict=True)]
        stamps = [np.zeros(len(each), np.int64) for each in data]
        sources = (_Source * 3)(
            *(_Source(each.ctypes.data, stamp.ctypes.data, len(each)) for each, stamp in zip(data, stamps, strict=True))
        )
        tiles = job.heads * -(-job.queries // unit.queries_per_tile)
        lanes, width = unit.columns, bytes_of.number_bytes(unit.output_format)
        beats = tiles * unit.value_dim
        out = np.zeros((beats, lanes * width), np.uint8)
        keep = np.zeros((beats, -(-lanes * width // 8)), np.uint8)
        last = np.zeros(beats, np.uint8)
        cycle = np.zeros(beats, np.int64)
        sink = _Sink(out.ctypes.data, keep.ctypes.data, last.ctypes.data, cycle.ctypes.data, beats)
        shares = (round(share * SHARES) for share in (rhythm.offer_share, rhythm.take_share))
        pace = _Rhythm(rhythm.seed & (2**64 - 1), *shares, PATIENCE_CYCLES, DRAIN_CYCLES)
        asked, seen = _Job(job.queries, job.keys, job.heads, job.causal), _Seen()
        started = time.perf_counter()
        ending = self._calls.einrtl_run(
            self._model, ctypes.byref(asked), sources, *map(ctypes.byref, (sink, pace, seen))
        )
        seconds = time.perf_counter() - started
        if ending:
            raise SimulationError(
                f"{_ENDINGS[ending]}, after {list(seen.accepted)} beats of Q, K and V and {seen.delivered} of AV of "
                f"{[len(each) for each in data]} and {beats}"
            )
        self._check_marks(job, keep, last)
        values = (ctypes.c_uint64 * len(self._status))()
        self._calls.einrtl_status(self._model, values)
        status = dict(zip(self._status, map(int, values), strict=True))
        turns = min(-(-job.keys // unit.rows), unit.turns)
        needed = [(0, unit.query_key_dim), (1, turns * unit.query_key_dim)]
        if unit.plan.offsets["SLNV"] == 0:
            needed.append((2, turns * unit.value_dim))
        begun = max(stamps[port][beats - 1] for port, beats in needed)
        return ArrayRun(
            av=unpack(unit, job, bytes_of.unpack(out, unit.output_format)),
            cycles=int(cycle[-1] - begun),
            wait_cycles=status["wait_cycles"],
            actions={action: status[action] for action in ACTIONS},
            simulated_cycles=int(seen.cycles),
            seconds=seconds,
        )

    def _check_marks(self, job: Job, keep: NDArray[np.uint8], last: NDArray[np.uint8]) -> None:
        """Check tkeep and tlast of all beats.

        Raises
        ------
        SimulationError
            One is wrong.
        """
        unit, width = self.unit, bytes_of.number_bytes(self.unit.output_format)
        blocks = _query_blocks(unit, job)
        lanes = np.repeat([end - begin for _, begin, end in blocks], unit.value_dim)
        bits = np.unpackbits(keep, axis=1, count=unit.columns * width, bitorder="little")
        if (bits != np.repeat(np.arange(unit.columns)[None, :] < lanes[:, None], width, axis=1)).any():
            raise SimulationError("tkeep of m_axis must mark the queries of the job, and no other lane")
        ends = np.zeros(len(last), bool)
        ends[len(last) // job.heads - 1 :: len(last) // job.heads] = True
        if (last != ends).any():
            raise SimulationError("tlast of m_axis must mark the last beat of each head, and no other")


def _glue(description: Mapping[str, Any], status: Sequence[str]) -> str:
    """Return what the shim must know of the array."""
    widths = {port["name"]: port["width_bits"] for port in description["ports"]}
    sizes = {name: widths[f"s_axis_{name.lower()}_tdata"] // 8 for name in "QKV"} | {"AV": widths["m_axis_tdata"] // 8}
    reads = " ".join(f"(values)[{index}] = (unit).{name};" for index, name in enumerate(status))
    return "".join(f"#define {name}_BYTES {size}\n" for name, size in sizes.items()) + (
        f"#define READ_STATUS(unit, values) do {{ {reads} }} while (0)\n"
    )
