"""What ``einrtl list`` shows of this package: names and one line each."""

from __future__ import annotations

from accel.arch import architecture_names, load_architecture
from accel.configuration import load_study, study_names
from accel.cost import cost_table_names, load_cost_table
from accel.fpga import device_names, load_device
from accel.frame import frame_names, load_frame

__all__ = ["architectures", "devices", "frames", "studies", "technologies"]


def architectures() -> list[dict[str, str]]:
    """Return the packaged architectures: their arrays, buffer and clock."""
    rows = []
    for name in architecture_names():
        architecture = load_architecture(name)
        arrays = ", ".join(f"{key}: {array.rows} x {array.columns}" for key, array in architecture.arrays.items())
        rows.append(
            {
                "name": name,
                "arrays": arrays,
                "buffer_kib": f"{architecture.buffer.size_bits / 8192:g}",
                "clock_mhz": f"{architecture.clock_hz / 1e6:g}",
                "technology": architecture.technology,
            }
        )
    return rows


def devices() -> list[dict[str, str]]:
    """Return the packaged FPGA devices: what they offer, their clock and their memory."""
    rows = []
    for name in device_names():
        device = load_device(name)
        memory = device.memory
        rows.append(
            {
                "name": name,
                "part": device.part,
                "lut": str(device.lut_count),
                "ff": str(device.ff_count),
                "dsp": str(device.dsp_count),
                "block_ram": f"{device.block_ram_count} x {device.block_ram_bits / 1024:g} kbit",
                "large_ram": f"{device.large_ram_count} x {device.large_ram_bits / 1024:g} kbit"
                if device.large_ram_count
                else "",
                "clock_mhz": f"{device.typical_clock_hz / 1e6:g}",
                "memory": "" if memory is None else memory.kind,
                "port_bits": "" if memory is None else str(memory.port_bits),
                "gbit_per_s": "" if memory is None else f"{memory.bandwidth_bits_per_s / 1e9:g}",
            }
        )
    return rows


def frames() -> list[dict[str, str]]:
    """Return the packaged vision transformers: tokens, width, blocks, weights and work of a frame."""
    rows = []
    for name in frame_names():
        model = load_frame(name)
        rows.append(
            {
                "name": name,
                "tokens": str(model.tokens),
                "width": str(model.width),
                "heads": f"{model.heads} x {model.head_dim}",
                "blocks": str(len(model.feed_forwards)),
                "weights": f"{model.weights / 1e6:.1f} M",
                "work": f"{sum(model.macs.values()) / 1e9:.3f} GMAC",
            }
        )
    return rows


def technologies() -> list[dict[str, str]]:
    """Return the packaged cost tables with the first sentence of their description."""
    return [
        {"name": name, "description": _first_sentence(load_cost_table(name).description)} for name in cost_table_names()
    ]


def studies() -> list[dict[str, str]]:
    """Return the packaged studies, by cost setting, with the first sentence of their description."""
    return [{"name": name, "description": _first_sentence(load_study(name).description)} for name in study_names()]


def _first_sentence(text: str) -> str:
    flat = " ".join(text.split())
    head, dot, _ = flat.partition(". ")
    return head + "." if dot else flat
