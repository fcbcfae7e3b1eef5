# SPDX-License-Identifier: Apache-2.0
"""Host driver of an attention array that EinRTL wrote: registers, packing of Q and K and V, and whole jobs.

It needs numpy and, beside it, the constants of the design's registers. Registers are reached through any object with
``read(offset)`` and ``write(offset, value)``, as ``pynq.MMIO`` is; streams through any object as ``Streams`` describes,
for which ``DmaStreams`` is a thin layer over PYNQ's AXI DMA. The design itself says how wide
its beats are, so one driver serves all sizes::

    import attention_array_registers as registers
    from attention_driver import AttentionDriver, DmaStreams

    overlay = pynq.Overlay("attention.bit")
    mmio = pynq.MMIO(overlay.ip_dict["attention_array_0"]["phys_addr"], 4096)
    dmas = {"q": overlay.dma_q, "k": overlay.dma_k, "v": overlay.dma_v, "av": overlay.dma_v}
    driver = AttentionDriver(mmio, registers, DmaStreams(dmas, pynq.allocate))
    av, report = driver.run(q, k, v, causal=True)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["AttentionDriver", "DesignError", "DmaStreams"]


Codes = NDArray[np.int64]
Bytes = NDArray[np.uint8]


class Registers(Protocol):
    """What the driver needs of its registers."""

    def read(self, offset: int) -> int:
        """Return the word at an address."""

    def write(self, offset: int, value: int) -> None:
        """Write the word at an address."""


class Streams(Protocol):
    """What the driver needs of its streams."""

    def send(self, name: str, data: Bytes) -> None:
        """Start to send bytes on a stream: q, k or v."""

    def expect(self, size: int) -> None:
        """Start to receive the output of a head, which ends with ``tlast``."""

    def receive(self, size: int) -> Bytes:
        """Return the output of a head when it is there."""

    def finish(self) -> None:
        """Wait until all is sent."""


class DesignError(RuntimeError):
    """The design is another one, refused a job, or did not finish in time."""


class DmaStreams:
    """Streams through one AXI DMA for each of ``q``, ``k``, ``v`` (send channel) and ``av`` (receive channel).

    Parameters
    ----------
    dmas : mapping of str to pynq.lib.dma.DMA
        The engines; one may serve an input and the output.
    allocate : callable
        ``pynq.allocate``: shape and dtype to a buffer that the engines can reach.
    """

    def __init__(self, dmas: Mapping[str, Any], allocate: Callable[..., Any]) -> None:
        self._dmas, self._allocate = dict(dmas), allocate
        self._buffers: list[Any] = []
        self._result: Any = None

    def send(self, name: str, data: Bytes) -> None:
        """Start to send bytes on a stream."""
        buffer = self._allocate(shape=(len(data),), dtype=np.uint8)
        self._buffers.append(buffer)
        buffer[:] = data
        buffer.flush()
        self._dmas[name].sendchannel.transfer(buffer)

    def expect(self, size: int) -> None:
        """Start to receive the output of a head: the engine ends a transfer where the head ends."""
        self._result = self._allocate(shape=(size,), dtype=np.uint8)
        self._dmas["av"].recvchannel.transfer(self._result)

    def receive(self, size: int) -> Bytes:
        """Return the bytes of the output of a head when they are there."""
        self._dmas["av"].recvchannel.wait()
        self._result.invalidate()
        data: Bytes = np.array(self._result, np.uint8)[:size]
        self._result.freebuffer()
        return data

    def finish(self) -> None:
        """Wait until all is sent, and give the buffers back."""
        for name in ("q", "k", "v"):
            self._dmas[name].sendchannel.wait()
        for buffer in self._buffers:
            buffer.freebuffer()
        self._buffers.clear()


class AttentionDriver:
    """One design.

    Parameters
    ----------
    mmio : object
        ``read(offset)`` and ``write(offset, value)`` of 32-bit registers.
    registers : module
        The constants that were written beside the Verilog.
    streams : object, optional
        As ``Streams``; needed for ``run``.

    Raises
    ------
    DesignError
        What answers is no such design, or one with another register map.
    """

    def __init__(self, mmio: Registers, registers: Any, streams: Streams | None = None) -> None:
        self._mmio, self._registers, self._streams = mmio, registers, streams
        for name, what in (("ID", "an attention design"), ("VERSION", "a register map")):
            found, wanted = self._read(name), getattr(registers, name + "_VALUE")
            if found != wanted:
                raise DesignError(f"{name} must read 0x{wanted:x}, that of {what} this driver knows, not 0x{found:x}")
        self.rows, self.columns = self._halves("ARRAY")
        self.query_key_dim, self.value_dim = self._halves("DIMS")
        self.keys_per_tile, self.queries_per_tile = self._halves("TILE")
        self.query_tiles, self.max_length = self._read("QUERY_TILES"), self._read("MAX_LENGTH")
        formats = self._read("FORMATS")
        self.query_bits, self.key_bits = formats & 0xFF, formats >> 8 & 0xFF
        self.value_bits, self.output_bits = formats >> 16 & 0xFF, formats >> 24

    def _read(self, name: str) -> int:
        return int(self._mmio.read(getattr(self._registers, name)))

    def _write(self, name: str, value: int) -> None:
        self._mmio.write(getattr(self._registers, name), value)

    def _halves(self, name: str) -> tuple[int, int]:
        value = self._read(name)
        return value & 0xFFFF, value >> 16

    def _wide(self, name: str) -> int:
        low = self._read(name + "_LOW")  # first: it latches the high word
        return low | self._read(name + "_HIGH") << 32

    # Packing -----------------------------------------------------------------------------------------------------

    def _query_blocks(self, heads: int, queries: int) -> list[tuple[int, int, int]]:
        step = self.queries_per_tile
        return [(head, at, min(at + step, queries)) for head in range(heads) for at in range(0, queries, step)]

    def _key_blocks(self, heads: int, queries: int, keys: int) -> list[tuple[int, int, int]]:
        tile, group = self.keys_per_tile, self.queries_per_tile * self.query_tiles
        passes = -(-queries // group) if keys > tile else 1
        once = [
            (at, min(at + self.rows, first + tile, keys))
            for first in range(0, keys, tile)
            for at in range(first, min(first + tile, keys), self.rows)
        ]
        return [(head, *block) for head in range(heads) for _ in range(passes) for block in once]

    @staticmethod
    def _beats(codes: Codes, blocks: Sequence[tuple[int, int, int]], lanes: int, bits: int) -> Bytes:
        dim, size = codes.shape[2], -(-bits // 8)
        beats = np.zeros((len(blocks), dim, lanes), "<i8")
        for index, (head, begin, end) in enumerate(blocks):
            beats[index, :, : end - begin] = codes[head, begin:end].T
        data: Bytes = np.ascontiguousarray(beats.view(np.uint8).reshape(*beats.shape, 8)[..., :size]).reshape(-1)
        return data

    def pack(self, q: ArrayLike, k: ArrayLike, v: ArrayLike) -> dict[str, Bytes]:
        """Return the bytes of the three input streams of a job.

        Parameters
        ----------
        q, k, v : ndarray[heads, queries or keys, E or F], int
            Codes of the design's formats; Q scaled by 1 / sqrt(E).

        Raises
        ------
        ValueError
            A shape or a code is wrong.
        """
        given: dict[str, Codes] = {}
        for name, codes, dim, bits in (
            ("q", q, self.query_key_dim, self.query_bits),
            ("k", k, self.query_key_dim, self.key_bits),
            ("v", v, self.value_dim, self.value_bits),
        ):
            array = np.asarray(codes)
            if array.ndim != 3 or array.shape[2] != dim or not array.size or array.dtype.kind not in "iu":
                raise ValueError(f"{name} must hold integers of shape (heads, length, {dim}), not {array.shape}")
            if array.min() < -(1 << bits - 1) or array.max() >= 1 << bits - 1:
                raise ValueError(f"{name} must hold integers of {bits} bits")
            given[name] = array.astype(np.int64)
        heads, queries, keys = len(given["q"]), given["q"].shape[1], given["k"].shape[1]
        if not heads == len(given["k"]) == len(given["v"]) or given["v"].shape[1] != keys:
            raise ValueError("q, k and v must have as many heads, k and v as many keys")
        blocks = self._key_blocks(heads, queries, keys)
        return {
            "q": self._beats(given["q"], self._query_blocks(heads, queries), self.columns, self.query_bits),
            "k": self._beats(given["k"], blocks, self.rows, self.key_bits),
            "v": self._beats(given["v"], blocks, self.rows, self.value_bits),
        }

    def output_bytes(self, heads: int, queries: int) -> int:
        """Return the bytes of the output stream of a job."""
        return len(self._query_blocks(heads, queries)) * self.value_dim * self.columns * -(-self.output_bits // 8)

    def unpack(self, data: Bytes, heads: int, queries: int) -> Codes:
        """Return AV[heads, queries, F], int64, of the bytes of the output stream."""
        size = -(-self.output_bits // 8)
        lanes = np.asarray(data, np.uint8).reshape(-1, size)
        words = np.zeros((len(lanes), 8), np.uint8)
        words[:, :size], words[:, size:] = lanes, 255 * (lanes[:, -1:] >> 7)
        blocks = self._query_blocks(heads, queries)
        beats = words.view("<i8").reshape(len(blocks), self.value_dim, self.columns)
        found = np.zeros((heads, queries, self.value_dim), np.int64)
        for beat, (head, begin, end) in zip(beats, blocks, strict=True):
            found[head, begin:end] = beat[:, : end - begin].T
        return found

    # Jobs --------------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, bool]:
        """Return the bits of STATUS by name."""
        value, registers = self._read("STATUS"), self._registers
        names = ("BUSY", "DONE", "ERROR_LENGTH", "ERROR_BUSY")
        return {name: bool(value & getattr(registers, f"STATUS_{name}_MASK")) for name in names}

    def start(self, queries: int, keys: int, heads: int = 1, causal: bool = False) -> None:
        """Start a job.

        Raises
        ------
        DesignError
            The design refused it.
        """
        registers = self._registers
        for name, value in (("QUERIES", queries), ("KEYS", keys), ("HEADS", heads), ("FLAGS", int(causal))):
            self._write(name, value)
        self._write("CONTROL", registers.CONTROL_START_MASK)
        status = self.status()
        if status["ERROR_LENGTH"]:
            raise DesignError(
                f"a job must have 1 to {self.max_length} queries and keys and 1 to 65535 heads, not {queries}, {keys} "
                f"and {heads}"
            )
        if status["ERROR_BUSY"]:
            raise DesignError("a job must be done before the next is started")

    def wait(self, timeout_s: float = 10.0) -> None:
        """Wait until the job is done.

        Raises
        ------
        DesignError
            It is not, in time.
        """
        end = time.monotonic() + timeout_s
        while not self.status()["DONE"]:
            if time.monotonic() > end:
                raise DesignError(f"the job must be done within {timeout_s} s; STATUS is {self.status()}")

    def report(self) -> dict[str, Any]:
        """Return cycles, cycles of waiting, and every action counter of the last job."""
        names = [name[6:-4] for name in dir(self._registers) if name.startswith("COUNT_") and name.endswith("_LOW")]
        counts = {name.lower(): self._wide("COUNT_" + name) for name in names}
        return {"cycles": self._wide("CYCLES"), "wait_cycles": self._read("WAIT_CYCLES"), "actions": counts}

    def run(
        self, q: Codes, k: Codes, v: Codes, causal: bool = False, timeout_s: float = 10.0
    ) -> tuple[Codes, dict[str, Any]]:
        """Do a job and return AV[heads, queries, F], int64, and ``report()``.

        Raises
        ------
        ValueError
            A shape or a code is wrong.
        DesignError
            The design refused the job or did not finish it.
        """
        if self._streams is None:
            raise DesignError("the driver must be given streams to run a job")
        packed = self.pack(q, k, v)
        heads, queries = len(q), q.shape[1]
        size = self.output_bytes(1, queries)
        self.start(queries, k.shape[1], heads, causal)
        self._streams.expect(size)
        for name, data in packed.items():
            self._streams.send(name, data)
        received = [self._streams.receive(size)]
        for _ in range(1, heads):
            self._streams.expect(size)
            received.append(self._streams.receive(size))
        self._streams.finish()
        self.wait(timeout_s)
        return self.unpack(np.concatenate(received), heads, queries), self.report()
