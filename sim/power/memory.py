"""A memory that synthesis left whole, simulated for 64 independent streams."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from accel.errors import SimulationError
from sim.power.boolean import Words

__all__ = ["Macro"]

_LANES = np.arange(64, dtype=np.uint64)
_ONE = np.uint64(1)


class Macro:
    """A yosys ``$mem_v2`` whose reads are registered; it starts with zeros.

    Parameters
    ----------
    parameters : mapping of str to str
        As yosys writes them: binary digits, the most significant first.
    nets : mapping of str to ndarray[bits], int64
        Nets at each port.

    Raises
    ------
    SimulationError
        The memory has ports of a kind that is not modelled: reads without a register or with a reset.
    """

    def __init__(self, parameters: Mapping[str, str], nets: Mapping[str, NDArray[np.int64]]) -> None:
        self.size, self.width, address_bits, self.reads, self.writes = (
            int(parameters[name], 2) for name in ("SIZE", "WIDTH", "ABITS", "RD_PORTS", "WR_PORTS")
        )
        registered = int(parameters["RD_CLK_ENABLE"], 2) == (1 << self.reads) - 1
        resets = np.concatenate([nets["RD_ARST"], nets["RD_SRST"]])
        if not registered or resets.any():
            raise SimulationError(
                f"memory {parameters['MEMID']} must have registered reads without reset, but has others"
            )
        # Bit (read port * write ports + write port), the least significant last.
        transparent = parameters["RD_TRANSPARENCY_MASK"][::-1]
        self._transparent = [
            [transparent[read * self.writes + write] == "1" for write in range(self.writes)]
            for read in range(self.reads)
        ]
        self._nets = {
            name: nets[name].reshape(ports, bits)
            for name, ports, bits in (
                ("RD_ADDR", self.reads, address_bits),
                ("RD_EN", self.reads, 1),
                ("RD_DATA", self.reads, self.width),
                ("WR_ADDR", self.writes, address_bits),
                ("WR_EN", self.writes, self.width),
                ("WR_DATA", self.writes, self.width),
            )
        }
        self._content = np.zeros((self.size, self.width), np.uint64)
        self.data: Words = np.zeros((self.reads, self.width), np.uint64)
        self.read_count = 0
        self.write_count = 0

    @property
    def outputs(self) -> NDArray[np.int64]:
        """Nets that ``data`` drives; ndarray[read ports, width]."""
        return self._nets["RD_DATA"]

    def clock(self, state: Words) -> None:
        """Take one clock edge with the nets at ``state``; the new ``data`` shows after it."""
        before = self._content.copy() if not all(map(all, self._transparent)) else None
        reading = [
            (self._places(state, "RD_ADDR", port), state[self._nets["RD_EN"][port, 0]]) for port in range(self.reads)
        ]
        for port in range(self.writes):
            enable, data = state[self._nets["WR_EN"][port]], state[self._nets["WR_DATA"][port]]
            self.write_count += int(np.bitwise_count(np.bitwise_or.reduce(enable)))
            for place, lanes in self._places(state, "WR_ADDR", port):
                if place < self.size:
                    change = enable & lanes
                    self._content[place] = (self._content[place] & ~change) | (data & change)
        for port, (places, enabled) in enumerate(reading):
            content = self._content if before is None or all(self._transparent[port]) else before
            self.read_count += int(np.bitwise_count(enabled))
            for place, lanes in places:
                change = lanes & enabled
                word = content[place] if place < self.size else np.zeros(self.width, np.uint64)
                self.data[port] = (self.data[port] & ~change) | (word & change)

    def _places(self, state: Words, name: str, port: int) -> list[tuple[int, np.uint64]]:
        """Return each address at a port with the lanes that have it."""
        bits = (state[self._nets[name][port]][:, None] >> _LANES) & _ONE
        addresses = (bits << np.arange(len(bits), dtype=np.uint64)[:, None]).sum(axis=0, dtype=np.uint64)
        return [
            (int(address), np.bitwise_or.reduce(_ONE << _LANES[addresses == address]))
            for address in np.unique(addresses)
        ]
