"""What a derivation did, step by step, as its reader wants it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Step"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One application of a rule.

    Parameters
    ----------
    rule : str
        shift, deferral, iteration, separation, maximum, split or blocked.
    einsum : str
        The Einsum that it is applied to.
    before : tuple of str
        Equations ahead of it.
    after : tuple of str
        Equations that replace them.
    condition : str
        The algebra that was checked, and that makes the step right.
    """

    __pydantic_config__ = {"extra": "forbid"}

    rule: str
    einsum: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    condition: str
