"""The command line: its root, and what all subcommands share."""

from __future__ import annotations

from accel.cli.display import console, json_option, print_json, progress, table
from accel.cli.interrupt import Interrupt, noted_interrupt
from accel.cli.options import Loudness, loudness
from accel.cli.output import check_output
from accel.cli.root import (
    COMMAND_GROUP,
    EXIT_BAD_INPUT,
    EXIT_COMPARISON_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OWN_FAULT,
    EXIT_TOOL_MISSING,
    LISTING_GROUP,
    main,
    root,
)

__all__ = [
    "COMMAND_GROUP",
    "EXIT_BAD_INPUT",
    "EXIT_COMPARISON_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OWN_FAULT",
    "EXIT_TOOL_MISSING",
    "LISTING_GROUP",
    "Interrupt",
    "Loudness",
    "check_output",
    "console",
    "json_option",
    "loudness",
    "main",
    "noted_interrupt",
    "print_json",
    "progress",
    "root",
    "table",
]
