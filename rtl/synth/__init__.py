"""What a block costs in hardware: synthesis for FPGAs and standard cells, placement and routing."""

from rtl.synth.design import Design, read_design
from rtl.synth.fpga import TARGETS, Memory, Resources, find_target, synthesise
from rtl.synth.memory import MemoryMismatchError, expect_block_ram
from rtl.synth.placement import DEVICES, SPEED_GRADES, Placement, place_and_route
from rtl.synth.tools import SynthesisError

__all__ = [
    "DEVICES",
    "SPEED_GRADES",
    "TARGETS",
    "Design",
    "Memory",
    "MemoryMismatchError",
    "Placement",
    "Resources",
    "SynthesisError",
    "expect_block_ram",
    "find_target",
    "place_and_route",
    "read_design",
    "synthesise",
]
