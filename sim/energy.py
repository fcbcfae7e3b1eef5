"""Prices counted actions of the softmax by a cited cost table of primitive operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accel.cost import CostTable

__all__ = ["ActionEnergy", "price_softmax"]

ARITHMETIC = "pe-int16"
MEMORY = "sram"

PRIMITIVES: Mapping[str, Mapping[str, int]] = {
    # log2(e) and the table's slope are multiplications; splitting off the exponent and the table's base are additions.
    "exp": {"multiply": 2, "add": 2},
    "max": {"max": 1},
    # The shift that aligns a term before it is added has no cited figure: it is charged as one more addition.
    "add": {"add": 2},
    # Shifting the running sum, likewise.
    "rescale": {"add": 1},
    # The table's slope and the two products of the Newton step; the table's base and the two differences.
    "reciprocal": {"multiply": 3, "add": 3},
    # The product, its alignment, and its rounding.
    "multiply": {"multiply": 1, "add": 2},
}
"""What each action does in terms of the operations that a cost table prices."""


@dataclass(frozen=True, kw_only=True)
class ActionEnergy:
    """Count and energy of one action.

    Parameters
    ----------
    action : str
        As in ``SOFTMAX_ACTIONS``.
    count : int
        How often it happened.
    energy_each_pj, energy_pj : float
        Of one, and of all.
    basis : str
        The primitive operations it was priced as.
    """

    action: str
    count: int
    energy_each_pj: float
    energy_pj: float
    basis: str


def price_softmax(actions: Mapping[str, int], costs: CostTable, *, word_bits: int) -> tuple[ActionEnergy, ...]:
    """Return the energy of actions.

    Parameters
    ----------
    actions : mapping of str to int
        Action, as in ``SOFTMAX_ACTIONS``, to how often it happened.
    costs : CostTable
        Energies of the primitive operations.
    word_bits : int
        Width of a word of the row buffer.

    Raises
    ------
    InputError
        The table lacks an entry that an action needs.
    """
    result = []
    for action, count in actions.items():
        if action in PRIMITIVES:
            parts = PRIMITIVES[action]
            each = sum(number * costs.energy_pj(ARITHMETIC, primitive) for primitive, number in parts.items())
            basis = " + ".join(f"{number} {primitive}" for primitive, number in parts.items())
        else:
            access = action.removeprefix("buffer_")
            each = costs.energy_pj(MEMORY, access, bits=word_bits)
            basis = f"{MEMORY} {access} of {word_bits} bits"
        result.append(
            ActionEnergy(action=action, count=count, energy_each_pj=each, energy_pj=each * count, basis=basis)
        )
    return tuple(result)
