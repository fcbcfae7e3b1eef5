"""What the registry knows of a block that can be built by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rtl.contract import Contract, StreamUnit

__all__ = ["UnitEntry"]


@dataclass(frozen=True, kw_only=True)
class UnitEntry:
    """A block that can be built by name.

    Parameters
    ----------
    name : str
        As users call it.
    summary : str
        What it does, in one line.
    make_default : callable
        Returns its description with the parameters that suit most models.
    contract : callable
        ``contract(description)``: what a block of that description promises; builds nothing.
    build : callable
        ``build(description)``: the block.
    """

    name: str
    summary: str
    make_default: Callable[[], Any]
    contract: Callable[..., Contract]
    build: Callable[..., StreamUnit]

    @cached_property
    def default(self) -> Any:
        """Its description with the parameters that suit most models."""
        return self.make_default()
