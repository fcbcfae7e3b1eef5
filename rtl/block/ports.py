"""The block unit between AXI4-Stream ports."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, ClockDomain, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from accel.block_unit import FIELDS
from accel.numerics import FixedPoint
from rtl.axi import PortWrapper
from rtl.block.engine import BlockEngine

__all__ = ["BlockPorts", "beat_bytes"]

OPERATION_BITS = 256
ENTRY_BYTES = 4


def _number_bytes(element: FixedPoint) -> int:
    return -(-element.width_bits // 8)


def beat_bytes(tile: int, element: FixedPoint) -> int:
    """Return the bytes of a beat of ``tile`` features: room for an entry at least."""
    return max(ENTRY_BYTES, tile * _number_bytes(element))


class BlockPorts(PortWrapper):
    """The unit behind AXI4-Stream ports (Arm IHI 0051) without ``tkeep``: every beat is full.

    Each number takes a whole number of bytes of ``tdata``, the first the lowest. On input, bits above the format's
    width are ignored; on output they repeat the sign. ``tlast`` ends the words of an operation, or the weights and
    biases of a layer.

    Parameters
    ----------
    core : BlockEngine
        The unit.

    Members
    -------
    aclk, aresetn : In(1)
        Clock; reset, active low and synchronous.
    s_axis_job_*, s_axis_x_*, s_axis_w_*, m_axis_*
        The streams: operations, features, weights; features out.
    (status) : Out
        The status outputs of ``core``.
    """

    def __init__(self, core: BlockEngine) -> None:
        linear = core.unit.linear
        fields = ", ".join(f"{name} from bit {16 * at}" for at, name in enumerate(FIELDS))
        ports: dict[str, tuple[Any, str]] = {
            "aclk": (In(1), "clock, rising edge"),
            "aresetn": (In(1), "reset, active low, synchronous to aclk"),
            "s_axis_job_tdata": (In(OPERATION_BITS), f"an operation: {fields}; the other bits are ignored"),
            "s_axis_job_tvalid": (In(1), "an operation is offered"),
            "s_axis_job_tready": (Out(1), "it is accepted in this cycle if offered"),
        }
        wide = 8 * beat_bytes(linear.tile, linear.feature_format)
        for port, element, bits, what, ends in (
            ("s_axis_x", linear.feature_format, wide, "features to load", "words of an operation"),
            (
                "s_axis_w",
                linear.weight_format,
                8 * linear.tile * _number_bytes(linear.weight_format),
                "weights, then biases",
                "biases of a layer",
            ),
            ("m_axis", linear.feature_format, wide, "features stored, or a list's expert and tokens", "an operation"),
        ):
            forward, backward = (Out, In) if port == "m_axis" else (In, Out)
            size = 8 * _number_bytes(element)
            text = f"{what}: {linear.tile} number(s) of {element}, each in {size} bits, the first lowest"
            ports |= {
                f"{port}_tdata": (forward(bits), text),
                f"{port}_tlast": (forward(1), f"last beat of the {ends}" if port != "m_axis" else f"last of {ends}"),
                f"{port}_tvalid": (forward(1), "a beat is offered"),
                f"{port}_tready": (backward(1), "the beat moves in this cycle if offered"),
            }
        super().__init__(core, ports)

    def elaborate(self, platform: Any) -> Any:
        """Build the core in a domain clocked by ``aclk``."""
        m = Module()
        domain = ClockDomain("sync", local=True)
        m.domains += domain
        core: Any = self.core
        linear = core.unit.linear
        m.submodules.core = core
        m.d.comb += [domain.clk.eq(self.aclk), domain.rst.eq(~self.aresetn)]
        m.d.comb += [getattr(self, name).eq(getattr(core, name)) for name in core.status]
        m.d.comb += [
            Value.cast(core.operations.payload).eq(self.s_axis_job_tdata[: 16 * len(FIELDS)]),
            core.operations.valid.eq(self.s_axis_job_tvalid),
            self.s_axis_job_tready.eq(core.operations.ready),
            core.features.payload.entry.eq(self.s_axis_x_tdata[: 8 * ENTRY_BYTES]),
            core.features.payload.is_entry.eq(0),
        ]
        for port, name, element in (
            ("s_axis_x", "features", linear.feature_format),
            ("s_axis_w", "weights", linear.weight_format),
        ):
            inner, size, given = getattr(core, name), 8 * _number_bytes(element), getattr(self, f"{port}_tdata")
            for lane in range(linear.tile):
                code = given[lane * size : lane * size + element.width_bits]
                m.d.comb += inner.payload.numbers[lane].eq(code)
            m.d.comb += [
                inner.payload.last.eq(getattr(self, f"{port}_tlast")),
                inner.valid.eq(getattr(self, f"{port}_tvalid")),
                getattr(self, f"{port}_tready").eq(inner.ready),
            ]
        lanes = []
        for lane in range(linear.tile):
            code = Value.cast(core.outputs.payload.numbers[lane])
            lanes.append(Cat(code, code[-1].replicate(8 * _number_bytes(linear.feature_format) - len(code))))
        m.d.comb += [
            self.m_axis_tdata.eq(Mux(core.outputs.payload.is_entry, core.outputs.payload.entry, Cat(lanes))),
            self.m_axis_tlast.eq(core.outputs.payload.last),
            self.m_axis_tvalid.eq(core.outputs.valid),
            core.outputs.ready.eq(self.m_axis_tready),
        ]
        return m
