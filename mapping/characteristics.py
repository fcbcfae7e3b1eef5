"""What a cascade costs each score and each row: operations, and the words that a row keeps between its elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from accel.cascade import Cascade, Einsum
from accel.expression import size_symbol
from mapping.dependence import Family, Sweeps

__all__ = ["OPERATION_CLASSES", "Operations", "operations_per_score", "state_words"]

OPERATION_CLASSES: Mapping[str, str] = {
    "exp": "exp",
    "pow": "exp",
    "multiply": "mul",
    "add": "add",
    "subtract": "add",
    "negate": "add",
    "max": "max",
    "min": "max",
    "relu": "max",
    "divide": "div",
    "at_most": "compare",
    "less": "compare",
    "at_least": "compare",
    "greater": "compare",
    "equal": "compare",
    "unequal": "compare",
    "log1p": "log",
    "rsqrt": "sqrt",
    "sin": "cos",
    "floor": "round",
}
"""The unit that does an operator; operators that are not here are a class of their own."""

_ALWAYS = ("exp", "mul", "add", "max", "div", "compare")


class Operations(dict[str, int]):
    """Operations by class; printed without those that do not occur."""

    def __str__(self) -> str:
        """Return ``exp 1, add 2``."""
        return ", ".join(f"{name} {count}" for name, count in self.items() if count) or "none"


def operations_per_score(cascade: Cascade, score: str) -> Operations:
    """Return the operations at each element of the tensor ``score``, by class.

    Einsums over exactly the points of that tensor count; those with further ranks are products with keys or values,
    those with fewer are work for a row or a tile, which vanishes beside the scores. Keeping the largest values of a row
    (``top``) counts once for each score: an insertion into the list of those kept.

    Raises
    ------
    KeyError
        The cascade has no tensor ``score``.
    """
    points = set(cascade.merged_symbols(cascade.tensors[score].ranks))
    found = Counter(dict.fromkeys(_ALWAYS, 0))
    for einsum in cascade.einsums:
        if einsum.is_initial or set(cascade.merged_symbols(_visited(einsum))) != points:
            continue
        for operator, count in einsum.map_operations.items():
            found[OPERATION_CLASSES.get(operator, operator)] += count
        if einsum.reduction is not None:
            found[OPERATION_CLASSES.get(einsum.reduction.operator, einsum.reduction.operator)] += 1
    return Operations(found)


def _visited(einsum: Einsum) -> tuple[str, ...]:
    """Return the ranks of an Einsum, without the one that counts its largest values."""
    if einsum.reduction is None or einsum.reduction.operator != "top":
        return einsum.ranks
    read = {rank for access in einsum.reads for rank in access.ranks}
    return tuple(rank for rank in einsum.ranks if rank in read)


def state_words(cascade: Cascade, rank: str, score: str) -> str:
    """Return the words that each row keeps from element to element of the fiber, as a formula such as ``F + 2``.

    These are running values and the sums and extremes of the whole fiber. Values of one tile, and what is computed from
    the state after a pass, do not count. A cascade of more than one pass need not keep all of them at a time. Rows are
    told apart by the ranks that the tensor ``score`` shares with an output.

    Raises
    ------
    InputError
        As ``mapping.passes.passes``.
    """
    family = Family(cascade=cascade, rank=rank)
    dependences = Sweeps(family=family).dependences
    results = {each for name in cascade.outputs for each in cascade.tensors[name].ranks}
    rows = results.intersection(cascade.tensors[score].ranks) - family.members
    words: Counter[str] = Counter()
    for each in dependences.values():
        output = each.einsum.output.ranks
        touches = not family.members.isdisjoint(each.einsum.ranks)
        keeps = each.einsum.iterative_rank in family.members or family.members.isdisjoint(output)
        if touches and keeps and not family.covers(set(output) - {each.einsum.iterative_rank}):
            own = [one for one in output if one not in rows and one not in family.members]
            words["*".join(map(size_symbol, own))] += 1
    parts = [f"{count}*{name}" if count > 1 else name for name, count in sorted(words.items()) if name]
    return " + ".join([*parts, *([str(words[""])] if words[""] else [])]) or "0"
