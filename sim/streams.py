"""A block with several AXI4-Stream inputs as a shared library that numpy arrays drive.

As ``sim.compiled``, for blocks whose streams have no ``tkeep`` and whose inputs are more than one: the cycles run in
C++ (``streams_shim.cpp``), with pauses of each port.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.errors import InputError, SimulationError
from sim.beats import pack, unpack
from sim.library import SHARES, build_library, load_library
from sim.toolchain import Toolchain

__all__ = ["CompiledStreams", "StreamRun", "Streams", "pack", "unpack"]

PATIENCE_CYCLES = 20_000
DRAIN_CYCLES = 64
"""Cycles that are run after the last beat, to see that no further one comes."""

_SHIM = Path(__file__).with_name("streams_shim.cpp")
_ENDINGS = {
    2: "port m_axis must keep tvalid until tready, but took it back",
    3: "port m_axis must keep its payload until tready, but changed it",
    4: "port m_axis must end with the last expected beat, but offered another",
}


@dataclass(frozen=True, kw_only=True)
class Streams:
    """What goes into a run.

    Parameters
    ----------
    data : mapping of str to ndarray[beats, bytes], uint8
        Port, as ``s_axis_q``, to the bytes of its beats.
    last : mapping of str to ndarray[beats], bool
        Port to its ``tlast``; ports without one are left out.
    outputs : int
        Beats expected at ``m_axis``.
    """

    data: Mapping[str, NDArray[np.uint8]]
    last: Mapping[str, NDArray[np.bool_]]
    outputs: int


@dataclass(frozen=True, kw_only=True)
class StreamRun:
    """What a run showed.

    Parameters
    ----------
    data : ndarray[beats, bytes], uint8
        Beats of ``m_axis``.
    last : ndarray[beats], bool
        Its ``tlast``.
    cycles_of : mapping of str to ndarray[beats], int64
        Port to the cycle in which each beat moved, from the run's first cycle on.
    cycles : int
        Cycles run in all, those after the last beat included.
    seconds : float
        Time that took.
    status : dict of str to int
        The block's further outputs after the run.
    """

    data: NDArray[np.uint8]
    last: NDArray[np.bool_]
    cycles_of: Mapping[str, NDArray[np.int64]]
    cycles: int
    seconds: float
    status: dict[str, int]


class _Stream(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("data", "last", "cycle")),
        ("beats", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("share", ctypes.c_uint32),
    )


@dataclass(frozen=True, kw_only=True)
class CompiledStreams:
    """One block, compiled and loaded; state lasts from run to run until ``reset``.

    Parameters
    ----------
    library : Path
        The shared library.
    build_seconds : float
        How long the build took; 0 if it was found built.
    """

    library: Path
    build_seconds: float
    _inputs: tuple[str, ...] = field(repr=False)
    _out_bytes: int = field(repr=False)
    _status: tuple[str, ...] = field(repr=False)
    _calls: Any = field(repr=False)
    _model: Any = field(repr=False)

    @classmethod
    def build(
        cls, verilog: Path, description: Mapping[str, Any], *, toolchain: Toolchain, cache: Path
    ) -> CompiledStreams:
        """Compile an emitted block, or take the library of the same text from ``cache``, and reset it.

        Parameters
        ----------
        verilog : Path
            The emitted file.
        description : mapping
            Its sidecar, which names the ports.
        toolchain : Toolchain
            Verilator and the compiler.
        cache : Path
            Folder of libraries, made if missing.

        Raises
        ------
        InputError
            The block has no such ports, or ``cache`` cannot be written.
        SimulationError
            The Verilog does not compile; the message ends with the tool's last lines.
        """
        widths = {port["name"]: port["width_bits"] for port in description["ports"]}
        inputs = tuple(name.removesuffix("_tvalid") for name in widths if name.startswith("s_") and "_tvalid" in name)
        if not inputs or "m_axis_tdata" not in widths:
            raise InputError("the block must have AXI4-Stream ports s_axis_... and m_axis", hint="emit it with them")
        status = tuple(name for name in widths if not name.startswith(("s_axis_", "m_axis_", "aclk", "aresetn")))
        out_bytes = widths["m_axis_tdata"] // 8
        library, seconds = build_library(
            verilog,
            description["top"],
            glue=_glue(inputs, widths, out_bytes, status),
            shim=_SHIM,
            toolchain=toolchain,
            cache=cache,
        )
        calls = load_library(library)
        model = ctypes.c_void_p(calls.einrtl_new())
        unit = cls(
            library=library,
            build_seconds=seconds,
            _inputs=inputs,
            _out_bytes=out_bytes,
            _status=status,
            _calls=calls,
            _model=model,
        )
        weakref.finalize(unit, calls.einrtl_delete, model)
        unit.reset()
        return unit

    def reset(self) -> None:
        """Hold reset for four cycles."""
        self._calls.einrtl_reset(self._model)

    def run(
        self,
        streams: Streams,
        *,
        shares: Mapping[str, float] | None = None,
        seed: int = 1,
        patience_cycles: int = PATIENCE_CYCLES,
    ) -> StreamRun:
        """Send all beats, take those that are expected, and check that the output keeps the rules of its port.

        Parameters
        ----------
        streams : Streams
            Beats of all inputs; all ports start together.
        shares : mapping of str to float, optional
            Port to the share of the cycles, above 0 and up to 1, in which it moves; 1 where left out.
        seed : int
            Of the pauses.
        patience_cycles : int
            Cycles in which nothing moves before the run is given up.

        Raises
        ------
        InputError
            A port or a share is wrong.
        SimulationError
            The ports stalled (the message names them), or the output broke a rule.
        """
        names = (*self._inputs, "m_axis")
        paces = self._paces(names, shares or {})
        arrays = self._arrays(streams)
        calls = _structures(arrays, paces, seed)
        seen = (ctypes.c_int64 * (1 + len(names)))()
        started = time.perf_counter()
        ending = self._calls.einrtl_run(
            self._model, calls, ctypes.c_int64(patience_cycles), ctypes.c_int64(DRAIN_CYCLES), seen
        )
        seconds = time.perf_counter() - started
        if ending:
            counts = zip(names, seen[1:], arrays, strict=True)
            moved = ", ".join(f"{name} {count} of {len(last)}" for name, count, (_, last, _) in counts)
            message = _ENDINGS.get(ending, f"no port moved for {patience_cycles} cycles")
            raise SimulationError(f"{message}; beats moved: {moved}")
        values = (ctypes.c_uint64 * max(1, len(self._status)))()
        self._calls.einrtl_status(self._model, values)
        return StreamRun(
            data=arrays[-1][0],
            last=arrays[-1][1].astype(bool),
            cycles_of={name: cycle for name, (_, _, cycle) in zip(names, arrays, strict=True)},
            cycles=int(seen[0]),
            seconds=seconds,
            status=dict(zip(self._status, values, strict=False)),
        )

    def _paces(self, names: Sequence[str], shares: Mapping[str, float]) -> list[int]:
        for name, share in shares.items():
            if name not in names:
                raise InputError(f"shares must name ports of the block ({', '.join(names)}), not {name!r}")
            if not 1 / SHARES <= share <= 1:
                raise InputError(
                    f"the share of {name} must be from 2**-16 to 1, not {share}",
                    hint="use 1 for a port that never pauses",
                )
        return [round(shares.get(name, 1.0) * SHARES) for name in names]

    def _arrays(self, streams: Streams) -> list[_Arrays]:
        """Return bytes, last and cycles of each port, the output's at the end."""
        if set(streams.data) != set(self._inputs):
            raise InputError(
                f"the streams must be {', '.join(self._inputs)}, not {', '.join(streams.data)}", hint="give all of them"
            )
        found = []
        for name in self._inputs:
            data = np.ascontiguousarray(streams.data[name], np.uint8)
            last = np.ascontiguousarray(streams.last.get(name, np.zeros(len(data), bool))).astype(np.uint8)
            found.append((data, last, np.zeros(len(data), np.int64)))
        shape = (streams.outputs, self._out_bytes)
        found.append((np.zeros(shape, np.uint8), np.zeros(shape[0], np.uint8), np.zeros(shape[0], np.int64)))
        return found


_Arrays = tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]


def _structures(arrays: Sequence[_Arrays], paces: Sequence[int], seed: int) -> ctypes.Array[_Stream]:
    """Return the ports' arrays, which the caller keeps alive, as the shim's structures; each port pauses by itself."""
    found = (_Stream * len(arrays))()
    for index, (data, last, cycle) in enumerate(arrays):
        chance = (seed * 0x9E3779B97F4A7C15 + index * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        addresses = (data.ctypes.data, last.ctypes.data, cycle.ctypes.data)
        found[index] = _Stream(*addresses, len(last), data.shape[1], chance, paces[index])
    return found


def _glue(inputs: Sequence[str], widths: Mapping[str, int], out_bytes: int, status: Sequence[str]) -> str:
    """Return what the shim must know of the block."""
    put, offer, ready = [], [], []
    for index, name in enumerate(inputs):
        last = f" unit.{name}_tlast = last;" if f"{name}_tlast" in widths else ""
        put.append(f"case {index}: std::memcpy(&unit.{name}_tdata, data, {widths[f'{name}_tdata'] // 8});{last} break;")
        offer.append(f"case {index}: unit.{name}_tvalid = valid; break;")
        ready.append(f"case {index}: return unit.{name}_tready;")
    glue = (
        "inline void put(Vunit& unit, int port, const uint8_t* data, uint8_t last) "
        f"{{ (void)last; switch (port) {{ {' '.join(put)} }} }} "
        f"inline void offer(Vunit& unit, int port, bool valid) {{ switch (port) {{ {' '.join(offer)} }} }} "
        f"inline bool ready(Vunit& unit, int port) {{ switch (port) {{ {' '.join(ready)} }} return false; }}"
    )
    reads = " ".join(f"(values)[{index}] = (unit).{name};" for index, name in enumerate(status))
    return (
        f"#define INPUTS {len(inputs)}\n#define OUT_BYTES {out_bytes}\n#define GLUE {glue}\n"
        f"#define READ_STATUS(unit, values) do {{ (void)(values); {reads} }} while (0)\n"
    )
