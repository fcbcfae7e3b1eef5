"""The 2**-u block."""

from __future__ import annotations

from accel.numerics import LinearTable, exp2_table
from rtl.lookup import TableLookup

__all__ = ["Exp2"]


class Exp2(TableLookup):
    """Computes ``2**-u`` for u in [0, 1), one value a cycle.

    ``result`` is within ``max_error`` of ``2**-u``: half of the largest distance of a chord from the curve, which is
    ``(ln 2 / segments)**2 / 16`` to first order, plus one step of the table entries and half a step of the result.
    With 64 segments and 17 fraction bits that is 1.32e-5. Latency ``read_cycles + 2``, interval 1.

    For any other argument t use ``2**t = 2**ceil(t) * 2**-(ceil(t) - t)``: the first factor is a shift.

    Parameters
    ----------
    segments : int
        Straight pieces, a power of two.
    argument_fraction_bits : int
        Bits of u, all of them below the binary point.
    result_fraction_bits : int
        Bits of the result below the binary point; there is one above it, as 2**-0 = 1.
    guard_bits : int
        Further bits of the table entries.
    table : LinearTable, optional
        A table from ``exp2_table`` in place of the four numbers.
    read_cycles : int
        As that of ``TableLookup``.

    Members
    -------
    argument : In(flow(unsigned(argument_fraction_bits)))
        u.
    result : Out(flow(unsigned(result_fraction_bits + 1)))
        2**-u, valid ``latency_cycles`` after its argument.

    Raises
    ------
    InputError
        ``segments`` is no power of two, or has as many bits as the argument.
    """

    def __init__(
        self,
        *,
        segments: int = 64,
        argument_fraction_bits: int = 17,
        result_fraction_bits: int = 17,
        guard_bits: int = 2,
        table: LinearTable | None = None,
        read_cycles: int = 1,
    ) -> None:
        super().__init__(
            table
            or exp2_table(
                segments=segments,
                argument_bits=argument_fraction_bits,
                result_fraction_bits=result_fraction_bits,
                guard_bits=guard_bits,
            ),
            read_cycles=read_cycles,
        )

    @property
    def max_error(self) -> float:
        """Bound on the distance of ``result`` from ``2**-u``."""
        return self.table.max_error
