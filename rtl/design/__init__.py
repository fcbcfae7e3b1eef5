"""Complete designs: a core behind AXI4-Stream data and AXI4-Lite registers, with what a host needs to use it."""

from rtl.design.emit import EmittedDesign, emit_design
from rtl.design.registers import RegisterPort
from rtl.design.shell import ArrayDesign

__all__ = ["ArrayDesign", "EmittedDesign", "RegisterPort", "emit_design"]
