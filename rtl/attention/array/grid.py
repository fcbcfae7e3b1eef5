"""The array, the vector row below it, and what enters at their edges."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, ClockSignal, Const, Instance, Module, Mux, ResetSignal, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.attention_array import AttentionArray
from rtl.attention.array.layouts import Layouts, MatrixOp, VectorOp, clamp
from rtl.attention.array.pe import MatrixPE, matrix_signature
from rtl.attention.array.sequencer import EINSUM_CODES, step_layout
from rtl.attention.array.vector import VectorPE, vector_signature
from rtl.stream import delay, element_shape

__all__ = ["Grid"]


class Grid(wiring.Component):
    """R x C PEs and C PEs below them; only neighbours are connected, by one item a cycle in each direction.

    A micro-operation reaches PE (0, 0) 2 cycles after it is at ``matrix``, when the words that it reads are there, and
    moves one row down and one column to the right a cycle. K and V enter at the left, Q at the top. The vector row is
    row R. Results of one micro-operation leave side by side: the columns on the left wait for the last one.

    Parameters
    ----------
    unit : AttentionArray
        The array.
    cells : str, optional
        Where all PEs are one module that is written on its own: what its name, and the vector row's, begins with.
        Otherwise every PE is elaborated, as Amaranth's own simulator needs it.

    Members
    -------
    matrix, vector : In(step_layout)
        Micro-operations, from registers.
    causal : In(1)
        Whether the mask is the causal one.
    q, k, v : In
        Words read by ``matrix``, 2 cycles later.
    av : Out
        One value of each column.
    keep, valid, last : Out
        Which columns hold one, whether any does, and whether they are the last of a head.
    """

    def __init__(self, unit: AttentionArray, *, cells: str | None = None) -> None:
        self._unit, self._layouts, self._cells = unit, Layouts(unit=unit), cells
        layouts = self._layouts
        super().__init__(
            {
                "matrix": In(step_layout(unit)),
                "vector": In(step_layout(unit)),
                "causal": In(1),
                "q": In(layouts.payload(unit.columns, unit.query_format.width_bits)),
                "k": In(layouts.payload(unit.rows, unit.key_format.width_bits)),
                "v": In(layouts.payload(unit.rows, unit.value_format.width_bits)),
                "av": Out(data.ArrayLayout(element_shape(unit.output_format), unit.columns)),
                "keep": Out(unit.columns),
                "valid": Out(1),
                "last": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Any:
        """Build the PEs, connect neighbours, and feed the edges."""
        m = Module()
        unit = self._unit
        pes = [[self._place(m, f"pe_{r}_{c}") for c in range(unit.columns)] for r in range(unit.rows)]
        row = [self._place(m, f"vector_{c}") for c in range(unit.columns)]
        for r, line in enumerate(pes):
            for c, pe in enumerate(line):
                if c:
                    m.d.comb += [pe.control.eq(line[c - 1].control_out), pe.west.eq(line[c - 1].east)]
                if r:
                    m.d.comb += pe.north.eq(pes[r - 1][c].south)
                m.d.comb += pe.climb.eq(pes[r + 1][c].climb_out if r + 1 < unit.rows else row[c].climb)
        for c, pe in enumerate(row):
            m.d.comb += pe.north.eq(pes[-1][c].south)
            if c:
                m.d.comb += pe.control.eq(row[c - 1].control_out)
        self._left_edge(m, [line[0] for line in pes])
        self._top_edge(m, pes[0])
        m.d.comb += (
            row[0]
            .control.as_value()
            .eq(delay(m, self._vector_control(m).as_value(), unit.rows + 1, name="vector_control", reset_less=False))
        )
        self._outputs(m, row)
        return m

    def _place(self, m: Any, name: str) -> Any:
        """Place a PE: elaborated, or as an instance of the module of its kind; return its ports."""
        below = name.startswith("vector")
        if self._cells is None:
            m.submodules[name] = pe = VectorPE(self._unit) if below else MatrixPE(self._unit)
            return pe
        signature = vector_signature(self._unit) if below else matrix_signature(self._unit)
        interface: Any = signature.create(path=(name,))
        ports: dict[str, Any] = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for port, member in signature.members.items():
            ports[f"{'i' if member.flow == In else 'o'}_{port}"] = Value.cast(getattr(interface, port))
        m.submodules[name] = Instance(f"{self._cells}_{'vector_pe' if below else 'pe'}", **ports)
        return interface

    def _matrix_control(self, m: Any) -> Any:
        """Return the micro-operation of ``matrix`` as PEs take it, but for the mask."""
        given, layouts = self.matrix, self._layouts
        control = Signal(layouts.matrix, name="matrix_control")
        code = {name: given.einsum == EINSUM_CODES[name] for name in ("BQK", "LM", "SLN", "SLD", "SLNV")}
        for name in ("BQK", "LM", "SLD", "SLNV"):
            with m.If(code[name]):
                m.d.comb += control.op.eq(MatrixOp.__members__[name])
                m.d.comb += control.turn.eq(given.inner)
                m.d.comb += control.first.eq(~(given.outer if name == "BQK" else given.inner).any())
                m.d.comb += control.final.eq(given.inner_ends)
        with m.If(code["SLN"]):
            _exponential(m, control, given, MatrixOp)
            m.d.comb += control.turn.eq(given.outer)
        for field, einsum in (("score", "BQK"), ("weight", "SLN")):
            if layouts.depths[einsum] > 1:
                m.d.comb += control[field].eq(given.tile.number)
        return control

    def _left_edge(self, m: Any, pes: list[Any]) -> None:
        """Feed K, V, and the micro-operation with its mask, each row a cycle later than the one above."""
        unit, layouts, given = self._unit, self._layouts, self.matrix
        control = self._matrix_control(m)
        turn: Any = control.turn * unit.rows if unit.turns > 1 else Const(0, 0)
        far = max(unit.rows, unit.columns)
        # As wide as the sum and no wider: yosys would write a spare sign bit as a loop within one wire.
        exact = Signal((given.tile.lead + turn).shape() if unit.turns > 1 else given.tile.lead.shape())
        lead = Signal(layouts.lead_shape)
        rows = Signal(layouts.count_bits)
        left = Signal(given.tile.keys.shape())  # a turn has at least one key
        m.d.comb += [
            exact.eq(given.tile.lead + turn),
            lead.eq(Mux(self.causal, clamp(exact, -far, far), -far)),
            left.eq((given.tile.keys - turn)[: len(left)] if unit.turns > 1 else given.tile.keys),
            rows.eq(clamp(left, 0, unit.rows)),
        ]
        travelling = delay(m, Cat(control, lead, rows), 2, name="edge", reset_less=False)
        reads_v = delay(m, control.op == MatrixOp.SLNV, 2, name="reads_v")
        for r, pe in enumerate(pes):
            if r:
                travelling = delay(m, travelling, 1, name=f"edge_row_{r}", reset_less=False)
            width = len(control.as_value())
            own = Signal(layouts.lead_shape, name=f"lead_{r}")
            alive = Signal(layouts.count_bits, name=f"rows_{r}")
            distance = Signal(signed(len(own) + 1), name=f"distance_{r}")
            m.d.comb += [
                Cat(own, alive).eq(travelling[width:]),
                distance.eq(own + r),
                pe.control.as_value().eq(travelling[:width]),
                pe.control.mask.eq(
                    Mux((alive <= r) | (distance > unit.columns), unit.columns, Mux(distance < 0, 0, distance))
                ),
            ]
            word = Mux(reads_v, self.v[r], self.k[r])
            held = Signal(signed(unit.row_link_bits), name=f"west_{r}")
            m.d.comb += held.eq(word)
            m.d.comb += pe.west.eq(delay(m, held, r, name=f"west_{r}_delayed"))

    def _top_edge(self, m: Any, pes: list[Any]) -> None:
        """Feed Q, or what a maximum or a sum begins with, each column a cycle later than the one on its left."""
        for c, pe in enumerate(pes):
            q = Value.cast(self.q[c])
            q = delay(m, q, c, name=f"north_{c}").as_signed()
            start = Mux(pe.control.op == MatrixOp.LM, Const(self._unit.score_floor, signed(self._unit.score_bits)), 0)
            m.d.comb += pe.north.eq(Mux(pe.control.op == MatrixOp.BQK, q, start))

    def _vector_control(self, m: Any) -> Any:
        """Return the micro-operation of ``vector`` as PEs take it, with what ``matrix`` sends down at last turns."""
        given, above = self.vector, self.matrix
        control = Signal(self._layouts.vector, name="vector_control_now")
        for name in ("RM", "SPD", "RD", "SPNV", "RNV", "AV"):
            with m.If(given.einsum == EINSUM_CODES[name]):
                m.d.comb += control.op.eq(VectorOp.__members__[name])
        with m.If(given.einsum == EINSUM_CODES["PRM"]):
            _exponential(m, control, given, VectorOp)
        m.d.comb += [
            control.feature.eq(given.outer),
            control.place.eq(given.tile.place),
            control.number.eq(given.tile.number),
            control.first_tile.eq(given.tile.first),
            control.last_tile.eq(given.tile.last),
            control.ends.eq(given.tile.ends & given.outer_ends),
            control.lanes.eq(given.tile.queries),
            control.capture.feature.eq(above.outer),
            control.capture.number.eq(above.tile.number),
        ]
        for name in ("LM", "SLD", "SLNV"):
            with m.If((above.einsum == EINSUM_CODES[name]) & above.inner_ends):
                m.d.comb += control.capture.op.eq(MatrixOp.__members__[name])
        return control

    def _outputs(self, m: Any, row: list[Any]) -> None:
        """Bring the results of all columns side by side."""
        last = len(row) - 1
        for c, pe in enumerate(row):
            late = delay(m, Cat(pe.quotient, pe.keep), last - c, name=f"result_{c}")
            m.d.comb += [Value.cast(self.av[c]).eq(late[:-1]), self.keep[c].eq(late[-1])]
        m.d.comb += [self.valid.eq(row[-1].valid), self.last.eq(row[-1].last)]


def _exponential(m: Any, control: Any, given: Any, op: Any) -> None:
    """Set the micro-operation of one stage of an exponential: subtract, scale, then the steps of the polynomial."""
    with m.If(~given.inner.any()):
        m.d.comb += control.op.eq(op.SUBTRACT)
    with m.Elif(given.inner == 1):
        m.d.comb += control.op.eq(op.SCALE)
    with m.Else():
        m.d.comb += [
            control.op.eq(op.STEP),
            control.step.eq(given.inner - 2),
            control.first.eq(given.inner == 2),
            control.final.eq(given.inner_ends),
        ]
