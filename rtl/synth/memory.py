"""Checks that the memories of a design become what they are meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatch

from accel.errors import EinRTLError
from rtl.synth.fpga import Resources

__all__ = ["MemoryMismatchError", "expect_block_ram"]


class MemoryMismatchError(EinRTLError):
    """A memory that was to be a block memory became something else."""

    exit_code = 1


def expect_block_ram(resources: Resources, names: Iterable[str]) -> None:
    """Check that the named memories became block memories.

    Parameters
    ----------
    resources : Resources
        Of the design.
    names : iterable of str
        Ends of the memories' names, such as ``row_buffer.storage``; ``*`` stands for any text, so ``*`` alone means
        every memory.

    Raises
    ------
    MemoryMismatchError
        A memory became flip-flops, gates or look-up tables, or none has such a name. All are named.
    """
    problems = []
    for name in names:
        meant = [memory for memory in resources.memories if fnmatch(f".{memory.name}", f"*.{name}")]
        if not meant:
            known = ", ".join(memory.name for memory in resources.memories) or "none"
            problems.append(f"a memory called {name} must be in the design, but its memories are: {known}")
        problems += [
            f"memory {memory.name} must become block memory on {resources.target}, but became {_what(memory.kind)}; "
            "register its read address or its output, and read whole words"
            for memory in meant
            if memory.kind != "block"
        ]
    if problems:
        raise MemoryMismatchError("\n".join(problems))


def _what(kind: str) -> str:
    return {"distributed": "look-up tables as memory", "logic": "flip-flops or gates"}[kind]
