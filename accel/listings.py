"""What ``einrtl list`` shows of this package: names and one line each."""

from __future__ import annotations

from accel.arch import architecture_names, load_architecture
from accel.configuration import load_study, study_names
from accel.cost import cost_table_names, load_cost_table

__all__ = ["architectures", "studies", "technologies"]


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
