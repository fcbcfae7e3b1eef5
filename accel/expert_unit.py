"""The two orders in which a mixture of experts can be worked on, as layers of the linear unit.

*Token by token* takes each token to each of its experts: two layers of one row each, with the weights loaded every
time. *Expert by expert* (Edge-MoE, arXiv 2305.18691, section IV: patch reordering) takes all tokens of an expert's list
one after the other, so that weights are loaded once for each expert that has work, and behind the work on the expert
before. Sums are exact and additions of rounded terms commute where nothing saturates, so both orders give the same
bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from accel.block_program import expert_layers
from accel.block_unit import Experts, Linear

__all__ = ["expert_order", "token_order"]


def expert_order(each: Experts, counts: Sequence[tuple[int, int]]) -> tuple[Linear, ...]:
    """Return the layers expert by expert.

    Parameters
    ----------
    each : Experts
        Regions and sizes.
    counts : sequence of (int, int)
        Experts that have work, and how many tokens each has.
    """
    return tuple(
        layer
        for place, (expert, tokens) in enumerate(counts)
        for layer in expert_layers(each, expert, tokens, first=place == 0)
    )


def token_order(each: Experts, queues: Sequence[int]) -> tuple[Linear, ...]:
    """Return the layers token by token: those of an expert for one row, for each pair of a token and its expert.

    Parameters
    ----------
    each : Experts
        Regions and sizes.
    queues : sequence of int
        For each pair, a list that begins with its token and score.
    """
    return expert_order(each, [(queue, 1) for queue in queues])
