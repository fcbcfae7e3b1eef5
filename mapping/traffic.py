"""Traffic to memory of a cascade as a function of the buffer: formulas for each way to live with its passes.

Rows (the queries of attention) are taken in blocks of R; each block traverses the fiber as often as there are passes.
What a pass hands to a later one is kept on chip, written out and read back, or made again from the inputs. Inputs over
the fiber that have no row of their own (the keys and values) are fetched once for each block, so a larger buffer, with
more rows to a block, costs less traffic. docs/passes.md has the model in words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accel.cascade import Cascade, Tensor
from accel.errors import InputError
from accel.expression import size_symbol
from mapping.dependence import Dependence, Family
from mapping.passes import PassAnalysis, fewest_sweeps, passes

__all__ = ["STRATEGIES", "Amount", "TrafficPlan", "least_traffic", "traffic_plans"]

STRATEGIES: Mapping[str, str] = {
    "keep": "fibers that a later pass needs stay on chip",
    "spill": "they are written out and read back",
    "remake": "they are made again from the inputs",
}
"""What happens to the fibers that one pass makes and a later one reads."""


class Amount(Counter[tuple[str, ...]]):
    """A number of words: a sum of products of sizes, the coefficient of each product by its size symbols."""

    @classmethod
    def of(cls, symbols: Iterable[str], times: int = 1) -> Amount:
        """Return ``times`` the product of ``symbols``."""
        return cls({tuple(sorted(symbols)): times})

    def plus(self, others: Iterable[Amount]) -> Amount:
        """Return the sum with all ``others``."""
        total = Amount(self)
        for other in others:
            total.update(other)
        return total

    def words(self, sizes: Mapping[str, int]) -> int:
        """Return the number for the sizes given."""
        return sum(times * math.prod(sizes[symbol] for symbol in symbols) for symbols, times in self.items())

    def __str__(self) -> str:
        """Return a formula such as ``2*M*E + 1``."""
        order = sorted((item for item in self.items() if item[1]), key=lambda item: (-len(item[0]), item[0]))
        terms = ["*".join([*([str(times)] if times > 1 or not symbols else []), *symbols]) for symbols, times in order]
        return " + ".join(terms) or "0"


@dataclass(frozen=True, kw_only=True)
class TrafficPlan:
    """One way to run the passes.

    Parameters
    ----------
    strategy : str
        A key of ``STRATEGIES``.
    rows : tuple of str
        The ranks whose coordinates are the rows; empty where there is one row only.
    once : Amount
        Words moved once in all.
    each_block : mapping of tuple of str to Amount
        Words moved once for each block, by the row ranks that they do not depend on: keys of a head are fetched for
        each block of queries of that head.
    fixed : Amount
        Buffer words whatever the number of rows.
    each_row : Amount
        Buffer words for each row of a block.
    """

    strategy: str
    rows: tuple[str, ...]
    once: Amount
    each_block: Mapping[tuple[str, ...], Amount]
    fixed: Amount
    each_row: Amount

    @property
    def formula(self) -> str:
        """Words moved, in sizes and the number R of rows in a block."""
        blocks = [
            f"({amount})*ceil({'*'.join(map(size_symbol, ranks))}/R)" if ranks else str(amount)
            for ranks, amount in self.each_block.items()
        ]
        return " + ".join([*([str(self.once)] if +self.once else []), *blocks]) or "0"

    @property
    def rows_formula(self) -> str:
        """Rows in a block, in sizes and the number B of words of the buffer."""
        return f"floor((B - ({self.fixed})) / ({self.each_row}))" if self.rows else "1"

    def block_rows(self, sizes: Mapping[str, int], buffer_words: int) -> int:
        """Return how many rows fit, at most all; 0 where not even one does."""
        left = buffer_words - self.fixed.words(sizes)
        one = self.each_row.words(sizes)
        total = math.prod(sizes[size_symbol(rank)] for rank in self.rows)
        return max(0, min(total, left // one if one else total if left >= 0 else 0))

    def words(self, sizes: Mapping[str, int], buffer_words: int) -> int | None:
        """Return the words moved with a buffer of ``buffer_words``; None where not even one row fits."""
        rows = self.block_rows(sizes, buffer_words)
        if not rows:
            return None
        blocks = (
            amount.words(sizes) * -(-math.prod(sizes[size_symbol(rank)] for rank in ranks) // rows)
            for ranks, amount in self.each_block.items()
        )
        return self.once.words(sizes) + sum(blocks)

    def least_buffer_words(self, sizes: Mapping[str, int]) -> int:
        """Return the words of the smallest buffer with which it runs."""
        return self.fixed.words(sizes) + self.each_row.words(sizes)

    def full_buffer_words(self, sizes: Mapping[str, int]) -> int:
        """Return the words of the buffer past which more does not help: all rows in one block."""
        total = math.prod(sizes[size_symbol(rank)] for rank in self.rows)
        return self.fixed.words(sizes) + total * self.each_row.words(sizes)


def traffic_plans(cascade: Cascade, rank: str) -> tuple[TrafficPlan, ...]:
    """Return the plans for the passes of ``cascade`` over ``rank``: one where nothing is handed from pass to pass.

    Raises
    ------
    InputError
        As ``mapping.passes.passes``.
    """
    parts = _Parts(cascade, rank)
    names = tuple(STRATEGIES) if parts.handed else ("keep",)
    return tuple(parts.plan(strategy) for strategy in names)


def least_traffic(cascade: Cascade, rank: str, sizes: Mapping[str, int], buffer_words: int) -> tuple[TrafficPlan, int]:
    """Return the plan that moves the fewest words with a buffer of ``buffer_words``, and their number.

    Parameters
    ----------
    cascade, rank : Cascade, str
        As ``mapping.passes.passes`` takes them.
    sizes : mapping of str to int
        As ``Cascade.sizes`` takes them.
    buffer_words : int
        Words of the buffer.

    Raises
    ------
    InputError
        Not even one row fits into the buffer, a size is missing, or as ``mapping.passes.passes``.
    """
    complete = cascade.sizes(sizes)
    plans = traffic_plans(cascade, rank)
    found = [(words, plan) for plan in plans if (words := plan.words(complete, buffer_words)) is not None]
    if not found:
        least = min(plan.least_buffer_words(complete) for plan in plans)
        raise InputError(
            f"the buffer must hold {least} words, which one row of {cascade.name} needs, not {buffer_words}",
            hint="enlarge it, or take smaller tiles",
        )
    words, best = min(found, key=lambda each: each[0])
    return best, words


class _Parts:
    """The tensors of a cascade by how they move."""

    def __init__(self, cascade: Cascade, rank: str) -> None:
        self.cascade = cascade
        self.family = Family(cascade=cascade, rank=rank)
        self.analysis: PassAnalysis = passes(cascade, rank)
        self.dependences: Mapping[str, Dependence] = fewest_sweeps(self.family).dependences
        self.rows = self._rows()
        visiting = [each.einsum.ranks for each in self.dependences.values() if each.visits]
        self.beside = {rank for ranks in visiting for rank in ranks} - self.family.members
        self.tiles = {each.tensor: each.symbols for each in self.analysis.footprints if each.extent == "tile"}
        self.handed = tuple(each for each in self.analysis.live)

    def _rows(self) -> tuple[str, ...]:
        """Return the ranks of outputs that tell rows apart.

        The first is the one that most Einsums over the fiber share, half of them at least. Others shared as much join
        it, where an input over the fiber has both or every such input has them.
        """
        visiting = [each.einsum.output.ranks for each in self.dependences.values() if each.visits]
        shares = {
            rank: sum(rank in ranks for ranks in visiting)
            for name in self.cascade.outputs
            for rank in self.cascade.tensors[name].ranks
            if rank not in self.family.members
        }
        first = max(shares, key=lambda rank: shares[rank], default=None)
        if first is None or 2 * shares[first] < max(len(visiting), 1):
            return ()
        fibers = [set(each.ranks) for each in self.cascade.inputs if not self.family.members.isdisjoint(each.ranks)]
        return tuple(
            rank
            for rank, share in shares.items()
            if rank == first
            or (share == shares[first] and all({first, rank} <= ranks for ranks in fibers if rank in ranks))
            or (share == shares[first] and all(rank in ranks for ranks in fibers))
        )

    def whole(self, tensor: Tensor) -> Amount:
        """Return the words of all of a tensor."""
        return Amount.of(self.cascade.merged_symbols(tensor.ranks))

    def at_once(self, tensor: Tensor) -> Amount:
        """Return the words of a tensor that one row holds at a time."""
        # Ranks that no Einsum over the fiber has stream by before or after the passes.
        rest = [rank for rank in tensor.ranks if rank in self.beside and rank not in self.rows]
        return Amount.of([*map(size_symbol, rest), *self.tiles.get(tensor.name, ())])

    def plan(self, strategy: str) -> TrafficPlan:
        """Return the plan of one strategy."""
        once, block = list[Amount](), dict[tuple[str, ...], Amount]()
        fixed, row = list[Amount](), list[Amount]()
        inputs = {tensor.name for tensor in self.cascade.inputs}
        for name, tensor in self.cascade.tensors.items():
            missing = tuple(rank for rank in self.rows if rank not in tensor.ranks)
            (fixed if missing or not self.rows else row).append(self.at_once(tensor))
            if name in inputs:
                times = self._visits(name, strategy)
                over_fiber = not self.family.members.isdisjoint(tensor.ranks)
                amount = _times(self.whole(tensor), times)
                if over_fiber and missing:
                    block[missing] = block.get(missing, Amount()).plus([amount])
                else:
                    once.append(amount)
            elif name in self.cascade.outputs:
                once.append(self.whole(tensor))
        if strategy == "spill":
            once.extend(self._spilled(inputs))
        if strategy == "keep" and self.handed:
            row.append(self._kept())
        return TrafficPlan(
            strategy=strategy,
            rows=self.rows,
            once=Amount().plus(once),
            each_block=block,
            fixed=Amount().plus(fixed if self.rows else [*fixed, *row]),
            each_row=Amount().plus(row if self.rows else []),
        )

    def _visits(self, name: str, strategy: str) -> int:
        """Return how often an input is fetched by each block."""
        if strategy == "remake":
            return max(self.analysis.tensor_passes.get(name, 1), 1)
        if strategy == "spill":
            return max(len(self._reading_passes(name)), 1)
        return 1

    def _reading_passes(self, name: str) -> set[int]:
        """Return the passes in which a tensor is read by itself, not by way of what is made of it."""
        readers = (each for each in self.dependences.values() if any(r.tensor == name for r in each.einsum.reads))
        return {each.point.sweep for each in readers}

    def _spilled(self, inputs: set[str]) -> list[Amount]:
        """Return the words of fibers written once and read in each later pass."""
        found = []
        for each in self.handed:
            if each.tensor not in inputs:
                made = self.dependences[each.tensor].point.sweep
                reads = len([number for number in self._reading_passes(each.tensor) if number > made])
                # An output is written anyway.
                written = each.tensor not in self.cascade.outputs
                found.append(_times(self.whole(self.cascade.tensors[each.tensor]), reads + written))
        return found

    def _kept(self) -> Amount:
        """Return the words of a row that the fullest border between two passes hands over."""
        borders: list[Amount] = []
        for border in range(1, self.analysis.passes + 1):
            across = []
            for each in self.handed:
                reads = self._reading_passes(each.tensor)
                made = self.dependences[each.tensor].point.sweep if each.tensor in self.dependences else min(reads)
                if made <= border and (max(reads) > border or made == max(reads) == border):
                    rest = [rank for rank in each.per if rank not in self.rows]
                    across.append(Amount.of([*each.symbols, *map(size_symbol, rest)]))
            borders.append(Amount().plus(across))
        return max(borders, key=lambda each: (sum(each.values()), str(each)))


def _times(amount: Amount, times: int) -> Amount:
    return Amount({symbols: count * times for symbols, count in amount.items()})
