"""Ctrl-C in a command that ends well on it: the answer so far is shown, and the exit code still says so."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

__all__ = ["Interrupt", "noted_interrupt"]


@dataclass(kw_only=True)
class Interrupt:
    """Whether the user has asked for an end.

    Parameters
    ----------
    asked : bool
        Whether Ctrl-C was pressed.
    """

    asked: bool = False


@contextmanager
def noted_interrupt() -> Iterator[Interrupt]:
    """Note a Ctrl-C while the block runs, which raises ``KeyboardInterrupt`` as before.

    What the block calls may catch it and return what it has; then only the note remembers.
    """
    found = Interrupt()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield found  # someone else answers Ctrl-C, or nobody may in this thread
        return

    def note(number: int, frame: FrameType | None) -> None:
        found.asked = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, before)
