"""The command line: its root, and what all subcommands share."""

from __future__ import annotations

from accel.cli.display import console, json_option, print_json, progress, table
from accel.cli.options import Loudness, loudness
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
    "Loudness",
    "console",
    "json_option",
    "loudness",
    "main",
    "print_json",
    "progress",
    "root",
    "table",
]
