"""Counts of the actions that the energy model charges."""

from __future__ import annotations

from typing import Any

from amaranth import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.attention_array import ACTIONS, AttentionArray
from rtl.attention.array.layouts import Layouts, clamp
from rtl.attention.array.sequencer import EINSUM_CODES, step_layout

__all__ = ["COUNTER_BITS", "ActionCounters"]

COUNTER_BITS = 48


class ActionCounters(wiring.Component):
    """Adds up actions as micro-operations are issued: rows times columns that hold points of the job.

    Parameters
    ----------
    unit : AttentionArray
        The array.

    Members
    -------
    clear : In(1)
        Begin at 0.
    matrix, vector : In(step_layout)
        Micro-operations, from registers.
    written_q, written_k, written_v : In
        Words written to the buffers in this cycle.
    (action) : Out(48)
        Each of ``ACTIONS``; counts a micro-operation two cycles after it.
    """

    def __init__(self, unit: AttentionArray) -> None:
        self._unit, self._layouts = unit, Layouts(unit=unit)
        bits = self._layouts.count_bits
        super().__init__(
            {
                "clear": In(1),
                "matrix": In(step_layout(unit)),
                "vector": In(step_layout(unit)),
                **{f"written_{tensor}": In(bits) for tensor in "qkv"},
                **{action: Out(COUNTER_BITS) for action in ACTIONS},
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the amounts of a cycle, registered, and a sum for each action."""
        m = Module()
        bits = self._layouts.count_bits
        points, rows, columns, queries = (
            Signal(2 * bits, name="points"),
            Signal(bits, name="rows"),
            Signal(bits, name="columns"),
            Signal(bits, name="queries"),
        )
        self._active(m, points, rows, columns, queries)
        did = self._flags(m)
        added: dict[str, list[tuple[Any, Any]]] = {
            "multiply_2d": [(did["BQK"] | did["SLNV"] | did["mac_2d"], points)],
            "add_2d": [(did["BQK"] | did["SLN"] | did["SLD"] | did["SLNV"], points)],
            "max_2d": [(did["LM"], points)],
            "exp_2d": [(did["exp_2d"], points)],
            "multiply_1d": [(did["SPD"] | did["SPNV"] | did["mac_1d"], queries)],
            "add_1d": [(did["PRM"] | did["RD"] | did["RNV"], queries)],
            "max_1d": [(did["RM"], queries)],
            "exp_1d": [(did["exp_1d"], queries)],
            "divide_1d": [(did["AV"], queries)],
            "read_q": [(did["fresh_q"], columns)],
            "read_k": [(did["BQK"], rows)],
            "read_v": [(did["SLNV"], rows)],
            "read_rm": [(did["RM"], queries)],
            "write_rm": [(did["RM"], queries)],
            "read_rd": [(did["SPD"], queries), (did["closing"], queries)],
            "write_rd": [(did["RD"], queries)],
            "read_rnv": [(did["SPNV"] | did["AV"], queries)],
            "write_rnv": [(did["RNV"], queries)],
            **{f"write_{tensor}": [(Const(1, 1), getattr(self, f"written_{tensor}"))] for tensor in "qkv"},
        }
        for action, terms in added.items():
            total = getattr(self, action)
            m.d.sync += total.eq(total + sum(Mux(flag, amount, 0) for flag, amount in terms))
        with m.If(self.clear):
            m.d.sync += [getattr(self, action).eq(0) for action in ACTIONS]
        return m

    def _active(self, m: Any, points: Any, rows: Any, columns: Any, queries: Any) -> None:
        """Register how many rows and columns of the micro-operations hold points of the job."""
        unit, given = self._unit, self.matrix
        turn = Mux(given.einsum == EINSUM_CODES["SLN"], given.outer, given.inner)[: self._layouts.turn_bits]
        left = Signal(range(unit.keys_per_tile + 1))
        now = Signal(len(rows))
        m.d.comb += left.eq(given.tile.keys - turn * unit.rows)
        m.d.comb += now.eq(clamp(left, 0, unit.rows))
        m.d.sync += [
            rows.eq(now),
            columns.eq(given.tile.queries),
            points.eq(now * given.tile.queries),
            queries.eq(self.vector.tile.queries),
        ]

    def _flags(self, m: Any) -> dict[str, Any]:
        """Register what each micro-operation is."""
        matrix, vector = self.matrix, self.vector
        ops = {
            name: (matrix if name in ("BQK", "LM", "SLN", "SLD", "SLNV") else vector).einsum == code
            for name, code in EINSUM_CODES.items()
        }
        ops["mac_2d"] = ops["SLN"] & (matrix.inner != 0)
        ops["mac_1d"] = ops["PRM"] & (vector.inner != 0)
        ops["exp_2d"] = ops["SLN"] & matrix.inner_ends
        ops["exp_1d"] = ops["PRM"] & vector.inner_ends
        ops["fresh_q"] = ops["BQK"] & ~matrix.inner.any()
        ops["closing"] = ops["RD"] & vector.tile.last
        flags = {}
        for name, value in ops.items():
            flags[name] = Signal(name=f"did_{name.lower()}")
            m.d.sync += flags[name].eq(value)
        return flags
