"""A block's emitted Verilog as a shared library that numpy batches drive: millions of cycles a second.

cocotb (``sim.cosim``) costs tens of microseconds a cycle and is for protocols and whole designs. Here the cycles run in
C++ (``compiled_shim.cpp``), with the pauses of both ports, so that exhaustive and statistical checks take seconds.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.errors import InputError, SimulationError
from accel.numerics import FixedPoint
from sim.beats import pack, unpack
from sim.library import SHARES, build_library, load_library
from sim.toolchain import Toolchain

__all__ = ["ALWAYS", "Batch", "CompiledUnit", "Rhythm"]

PATIENCE_CYCLES = 10_000
DRAIN_CYCLES = 64
"""Cycles that are run after the last beat, to see that no further one comes."""

_SHIM = Path(__file__).with_name("compiled_shim.cpp")
_ENDINGS = {
    3: "port m_axis must keep tvalid until tready, but took it back",
    4: "port m_axis must keep its payload until tready, but changed it",
    5: "port m_axis must deliver one beat for each beat of s_axis, but offered another",
}


@dataclass(frozen=True, kw_only=True)
class Rhythm:
    """How often the ports move.

    Parameters
    ----------
    offer_share, take_share : float
        Share of the cycles, above 0 and up to 1, in which the input offers its next beat, and the output takes one.
    seed : int
        Of the pauses.

    Raises
    ------
    InputError
        A share is out of range.
    """

    offer_share: float
    take_share: float
    seed: int

    def __post_init__(self) -> None:
        """Check the shares: a port that never moves would only run into the time-out."""
        for name in ("offer_share", "take_share"):
            share = getattr(self, name)
            if not 1 / SHARES <= share <= 1:
                raise InputError(
                    f"{name} must be from 2**-16 to 1, not {share}", hint="use 1 for a port that never pauses"
                )


ALWAYS = Rhythm(offer_share=1.0, take_share=1.0, seed=1)
"""No port ever waits for its neighbour."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one run showed.

    Parameters
    ----------
    codes : ndarray[beats, lanes], int64
        Output codes.
    keep : ndarray[beats, lanes], bool
        Which lanes hold one.
    last : ndarray[beats], bool
        Beats that end a row.
    in_cycles, out_cycles : ndarray[beats], int64
        Cycle of each accepted input beat and of each delivered output beat, counted from the first accepted input beat.
    cycles : int
        Cycles run in all, those after the last beat included.
    status : dict of str to int
        The block's further outputs after the run.
    """

    codes: NDArray[np.int64]
    keep: NDArray[np.bool_]
    last: NDArray[np.bool_]
    in_cycles: NDArray[np.int64]
    out_cycles: NDArray[np.int64]
    cycles: int
    status: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class _Port:
    """How numbers lie in the ``tdata`` of one port."""

    name: str
    element: FixedPoint
    data_bytes: int

    @property
    def lane_bytes(self) -> int:
        return -(-self.element.width_bits // 8)

    @property
    def lanes(self) -> int:
        return self.data_bytes // self.lane_bytes

    @property
    def keep_bytes(self) -> int:
        return -(-self.data_bytes // 8)

    def pack(self, codes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return ``codes`` as bytes; the bits above the width, which the block must ignore, are the wrong ones."""
        return pack(codes, self.element)

    def unpack(self, data: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the numbers whose whole bytes stand in ``data``."""
        return unpack(data, self.element)

    def pack_keep(self, keep: NDArray[np.bool_]) -> NDArray[np.uint8]:
        return np.packbits(np.repeat(keep, self.lane_bytes, axis=1), axis=1, bitorder="little")

    def unpack_keep(self, bits: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return which lanes are kept.

        Raises
        ------
        SimulationError
            A lane is kept in part.
        """
        each = np.unpackbits(bits, axis=1, count=self.data_bytes, bitorder="little").astype(bool)
        lanes = each.reshape(len(bits), self.lanes, self.lane_bytes)
        if (lanes.any(axis=2) != lanes.all(axis=2)).any():
            raise SimulationError(f"port {self.name} must keep all bytes of a lane or none, but kept some")
        kept: NDArray[np.bool_] = lanes[..., 0]
        return kept


class _Input(ctypes.Structure):
    _fields_ = (*((name, ctypes.c_void_p) for name in ("data", "keep", "last", "cycle")), ("beats", ctypes.c_int64))


class _Rhythm(ctypes.Structure):
    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("offer_share", ctypes.c_uint32),
        ("take_share", ctypes.c_uint32),
        ("patience_cycles", ctypes.c_int64),
        ("drain_cycles", ctypes.c_int64),
    )


class _Seen(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in ("accepted", "delivered", "cycles"))


def _arrays(data: NDArray[Any], keep: NDArray[Any], last: NDArray[Any], cycle: NDArray[Any]) -> _Input:
    """Return one side's arrays, which the caller keeps alive, as the shim's structure."""
    return _Input(data.ctypes.data, keep.ctypes.data, last.ctypes.data, cycle.ctypes.data, len(last))


@dataclass(frozen=True, kw_only=True)
class CompiledUnit:
    """One block with AXI4-Stream ports, compiled and loaded; state lasts from run to run until ``reset``.

    Parameters
    ----------
    library : Path
        The shared library.
    build_seconds : float
        How long the build took; 0 if it was found built.
    """

    library: Path
    build_seconds: float
    _source: _Port = field(repr=False)
    _sink: _Port = field(repr=False)
    _status: tuple[str, ...] = field(repr=False)
    _calls: Any = field(repr=False)
    _model: Any = field(repr=False)

    @classmethod
    def build(cls, verilog: Path, description: Mapping[str, Any], *, toolchain: Toolchain, cache: Path) -> CompiledUnit:
        """Compile an emitted block, or take the library of the same text from ``cache``, and reset it.

        Parameters
        ----------
        verilog : Path
            The emitted file.
        description : mapping
            Its sidecar, which names the ports and formats; the wrapper must be ``AxisWrapper``.
        toolchain : Toolchain
            Verilator and the compiler.
        cache : Path
            Folder of libraries, made if missing.

        Raises
        ------
        InputError
            The block has other ports, or ``cache`` cannot be written.
        SimulationError
            The Verilog does not compile; the message ends with the tool's last lines.
        """
        if description["wrapper"] != "AxisWrapper":
            raise InputError(
                f"a compiled unit must have AXI4-Stream ports, not those of {description['wrapper']}",
                hint="emit it with --axi",
            )
        widths = {port["name"]: port["width_bits"] for port in description["ports"]}
        source, sink = (
            _Port(name=name, element=FixedPoint(**_format(description[which])), data_bytes=widths[f"{name}_tkeep"])
            for name, which in (("s_axis", "input_format"), ("m_axis", "output_format"))
        )
        status = tuple(name for name in widths if not name.startswith(("s_axis_", "m_axis_", "aclk", "aresetn")))
        library, seconds = build_library(
            verilog,
            description["top"],
            glue=_glue(source, sink, status),
            shim=_SHIM,
            toolchain=toolchain,
            cache=cache,
        )
        calls = load_library(library)
        model = ctypes.c_void_p(calls.einrtl_new())
        unit = cls(
            library=library,
            build_seconds=seconds,
            _source=source,
            _sink=sink,
            _status=status,
            _calls=calls,
            _model=model,
        )
        weakref.finalize(unit, calls.einrtl_delete, model)
        unit.reset()
        return unit

    @property
    def lanes(self) -> int:
        """Numbers in a beat."""
        return self._source.lanes

    def reset(self) -> None:
        """Hold reset for four cycles."""
        self._calls.einrtl_reset(self._model)

    def run(
        self,
        codes: ArrayLike,
        *,
        keep: ArrayLike | None = None,
        last: ArrayLike | None = None,
        rhythm: Rhythm = ALWAYS,
        patience_cycles: int = PATIENCE_CYCLES,
    ) -> Batch:
        """Send beats, take as many, and check on the way that the output keeps the rules of its port.

        Parameters
        ----------
        codes : ndarray[beats, lanes], int64
            Codes of the input format.
        keep : ndarray[beats, lanes], bool, optional
            Which lanes hold one; default all.
        last : ndarray[beats], bool, optional
            Beats that end a row; default the last one only.
        rhythm : Rhythm
            Pauses of the ports.
        patience_cycles : int
            Cycles in which nothing moves before the run is given up.

        Raises
        ------
        InputError
            An array has another shape, or a code is out of range.
        SimulationError
            A port stalled (the message names it), or the output broke a rule.
        """
        given, kept, ends = self._checked(codes, keep, last)
        beats = len(given)
        sent = (
            self._source.pack(given),
            self._source.pack_keep(kept),
            ends.astype(np.uint8),
            np.zeros(beats, np.int64),
        )
        taken = (
            np.zeros((beats, self._sink.data_bytes), np.uint8),
            np.zeros((beats, self._sink.keep_bytes), np.uint8),
            np.zeros(beats, np.uint8),
            np.zeros(beats, np.int64),
        )
        shares = (round(share * SHARES) for share in (rhythm.offer_share, rhythm.take_share))
        pace = _Rhythm(rhythm.seed & (2**64 - 1), *shares, patience_cycles, DRAIN_CYCLES)
        seen = _Seen()
        ending = self._calls.einrtl_run(self._model, *map(ctypes.byref, (_arrays(*sent), _arrays(*taken), pace, seen)))
        moved = f"after {seen.accepted} beats in and {seen.delivered} out of {beats}"
        if ending in (1, 2):
            port = "s_axis" if ending == 1 else "m_axis"
            raise SimulationError(f"port {port} did not move for {patience_cycles} cycles, {moved}")
        if ending:
            raise SimulationError(f"{_ENDINGS[ending]}, {moved}")
        values = (ctypes.c_uint64 * max(1, len(self._status)))()
        self._calls.einrtl_status(self._model, values)
        return Batch(
            codes=self._sink.unpack(taken[0]),
            keep=self._sink.unpack_keep(taken[1]),
            last=taken[2].astype(bool),
            in_cycles=sent[3] - sent[3][0],
            out_cycles=taken[3] - sent[3][0],
            cycles=int(seen.cycles),
            status=dict(zip(self._status, values, strict=False)),
        )

    def _checked(
        self, codes: ArrayLike, keep: ArrayLike | None, last: ArrayLike | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        given = np.asarray(codes)
        if given.ndim != 2 or given.shape[1] != self.lanes or not len(given):
            raise InputError(
                f"codes must have the shape (beats, {self.lanes}), not {given.shape}", hint="give at least one beat"
            )
        element = self._source.element
        if given.dtype.kind not in "iu" or given.min() < element.min_code or given.max() > element.max_code:
            raise InputError(
                f"codes must be integers from {element.min_code} to {element.max_code}",
                hint=f"quantize the numbers by {element}",
            )
        kept = np.ones(given.shape, bool) if keep is None else np.asarray(keep, bool)
        ends = np.arange(len(given)) == len(given) - 1 if last is None else np.asarray(last, bool)
        for name, array, shape in (("keep", kept, given.shape), ("last", ends, given.shape[:1])):
            if array.shape != shape:
                raise InputError(f"{name} must have the shape {shape}, not {array.shape}", hint="as codes has")
        return given.astype(np.int64), kept, ends


def _format(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a format as the sidecar shows them, with the rules as their types."""
    parsed = FixedPoint.parse(
        f"{'s' if fields['signed'] else 'u'}{fields['width_bits']}f{fields['fraction_bits']},"
        f"{fields['rounding']},{fields['overflow']}"
    )
    return vars(parsed)


def _glue(source: _Port, sink: _Port, status: Sequence[str]) -> str:
    """Return what the shim must know of the block."""
    reads = " ".join(f"(values)[{index}] = (unit).{name};" for index, name in enumerate(status))
    return (
        f"#define IN_BYTES {source.data_bytes}\n#define OUT_BYTES {sink.data_bytes}\n"
        f"#define READ_STATUS(unit, values) do {{ (void)(values); {reads} }} while (0)\n"
    )
