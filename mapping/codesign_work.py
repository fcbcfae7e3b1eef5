"""What a pipeline of tiles takes on arrays of any shape: a bound, and an estimate to try designs by."""

from __future__ import annotations

import math
from dataclasses import dataclass

from accel.arch import Architecture, ComputeArray
from accel.cascade import Cascade, Einsum
from accel.errors import InputError
from accel.workload import Workload
from mapping.bound import operators

__all__ = ["Work"]


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the Einsums of a pipeline take for one instance of a shape, in cycles of one PE.

    Parameters
    ----------
    keys, queries : int
        M and P.
    shares : tuple of tuple of int
        Of all Einsums over single scores, for one score: cycles on the main array and on the vector array, for each way
        to share them out; all on the main array first.
    updates : int
        Of all Einsums over queries and tiles of keys on the vector array, for one query and one tile.
    memory_cycles : float
        Time of DRAM if every input and output moves once.
    """

    keys: int
    queries: int
    shares: tuple[tuple[int, int], ...]
    updates: int
    memory_cycles: float

    def bound(self, array: ComputeArray, vector: ComputeArray) -> float:
        """Return the cycles that no schedule goes below.

        The Einsums over single scores are shared out in the best way, and a rank takes at least the turns that it takes
        in one piece.
        """
        main, other = self._least_turns(array), self._least_turns(vector)
        arrays = min(max(main * on_main, other * on_vector) for on_main, on_vector in self.shares)
        return max(arrays, self.memory_cycles)

    def estimate(self, array: ComputeArray, vector: ComputeArray) -> float:
        """Return a guess of the cycles: tiles of one to three turns, each as long as the busier array takes."""
        found, scores = math.inf, self.shares[0][0]
        for length, width in ((array.rows, array.columns), (array.columns, array.rows)):
            turns, query_turns = -(-self.keys // length), -(-self.queries // width)
            tile_queries = -(-self.queries // query_turns)
            own = -(-tile_queries // vector.columns) * self.updates
            for tile in (1, 2, 3):
                full, rest = divmod(turns, tile)
                epochs = full * max(tile * scores, own) + (max(rest * scores, own) if rest else 0)
                found = min(found, query_turns * epochs)
        return max(found, self.memory_cycles)

    def floor(self, array: ComputeArray) -> int:
        """Return the cycles of all Einsums over single scores on the main array."""
        return self._least_turns(array) * self.shares[0][0]

    def _least_turns(self, array: ComputeArray) -> int:
        return min(self._turns(array.rows, array.columns), self._turns(array.columns, array.rows))

    def _turns(self, keys: int, queries: int) -> int:
        return -(-self.keys // keys) * -(-self.queries // queries)

    @classmethod
    def of(cls, cascade: Cascade, architecture: Architecture, names: tuple[str, str], workload: Workload) -> Work:
        """Return the work of a cascade on the arrays ``names``, main and vector, whatever their shapes.

        Raises
        ------
        InputError
            The main array lacks an operator of an Einsum over single scores.
        """
        sizes = workload.sizes
        digits, key = next(iter(cascade.partitions.items()))
        array, vector = (architecture.arrays[name] for name in names)
        shares, updates = [(0, 0)], 0
        for einsum in cascade.einsums:
            if einsum.is_initial or "p" not in einsum.ranks:
                continue
            others = math.prod(sizes[rank.upper()] for rank in einsum.ranks if rank not in (*digits, "p"))
            on_array, on_vector = _cycles(einsum, array), _cycles(einsum, vector)
            if digits[-1] in einsum.ranks:
                if on_array is None:
                    raise InputError(
                        f"array {names[0]!r} must have all operators of Einsum {einsum.name!r}",
                        hint="name another array in the design space",
                    )
                kept = [(main + on_array * others, other) for main, other in shares]
                moved = [] if on_vector is None else [(main, other + on_vector * others) for main, other in shares]
                shares = [*kept, *moved]
            elif digits[0] in einsum.ranks and on_vector is not None:
                updates += on_vector * others
        tensors = [*cascade.inputs, *(cascade.tensors[name] for name in cascade.outputs)]
        values = sum(math.prod(sizes[rank.upper()] for rank in tensor.ranks) for tensor in tensors)
        return cls(
            keys=sizes[key.upper()],
            queries=sizes["P"],
            shares=tuple(dict.fromkeys(shares)),
            updates=updates,
            memory_cycles=architecture.memory_cycles(values * architecture.width_bits),
        )


def _cycles(einsum: Einsum, array: ComputeArray) -> int | None:
    """Return the cycles of one PE for one point; None if it lacks an operator."""
    needed = operators(einsum, array)
    if not needed.keys() <= set(array.operators):
        return None
    return sum(count * array.operators[name].cycles for name, count in needed.items())
