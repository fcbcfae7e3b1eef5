"""Tiles that cost the same."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TileClass"]


class TileClass(NamedTuple):
    """Tiles that cost the same.

    Parameters
    ----------
    extents : tuple of int
        Elements along each split rank, in the order of the plan.
    final : tuple of bool
        For each rank over whose tiles some Einsum does not run: whether the tile is the last along it.
    entered : tuple of bool
        Only under a mask: for each split rank whether the tile before it was another one along that rank.
    """

    extents: tuple[int, ...]
    final: tuple[bool, ...]
    entered: tuple[bool, ...] = ()
