"""Counters that go up and down."""

from __future__ import annotations

from typing import Any

__all__ = ["up_and_down"]


def up_and_down(m: Any, count: Any, up: Any, down: Any) -> None:
    """Make ``count`` grow by 1 where ``up``, and shrink by 1 where ``down``; where both, it stays."""
    with m.If(up & ~down):
        m.d.sync += count.eq((count + 1)[: len(count)])
    with m.Elif(down & ~up):
        m.d.sync += count.eq((count - 1)[: len(count)])
