"""What the tests of sweeps share: a small sweep file, and the content of a database without its timing columns."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

MODEL = Path(__file__).parents[2] / "examples" / "models" / "vit-base-patch16-224" / "config.json"

SMALL = """\
name: small
architectures:
  - base: fpga-8x8
    fixed: {{arrays.2d.registers_per_pe: 6, arrays.1d.registers_per_pe: 8}}
    vary:
      - {{fields: [arrays.2d.rows, arrays.2d.columns, arrays.1d.columns], values: {sides}}}
      - {{fields: [buffer.size_bits], values: {sizes}}}
workloads:
  - {{model: {model}, lengths: {lengths}}}
{more}
"""

TIMING = {"wall_time_s", "finished_at_utc", "begun_at_utc"}


def sweep_file(
    folder: Path,
    *,
    sides: str = "[1, 2]",
    sizes: str = "[8192, 16384, 1000]",
    lengths: str = "[2, 3]",
    more: str = "",
    name: str = "small.yaml",
) -> Path:
    """Write a sweep of tiny points; of the buffer sizes 1000 is no multiple of a row, so that a third of them fail."""
    path = folder / name
    path.write_text(SMALL.format(sides=sides, sizes=sizes, lengths=lengths, model=MODEL, more=more), encoding="utf-8")
    return path


def content(database: Path) -> dict[str, list[dict[str, Any]]]:
    """Return every table of a database in a fixed order, but for columns of times."""
    orders = {"sweep": "number", "asked": "position", "point": "digest", "description": "kind, digest"}
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        tables = {name: connection.execute(f"SELECT * FROM {name} ORDER BY {order}") for name, order in orders.items()}
        found = {
            name: [{key: value for key, value in dict(row).items() if key not in TIMING} for row in rows]
            for name, rows in tables.items()
        }
    connection.close()
    return found


def recorded(database: Path) -> dict[str, str]:
    """Return the digest of every finished point and when it was finished; nothing while there is no table."""
    if not database.exists():
        return {}
    connection = sqlite3.connect(f"file:{database}?mode=rw", uri=True)
    try:
        return dict(connection.execute("SELECT digest, finished_at_utc FROM point").fetchall())
    except sqlite3.OperationalError:
        return {}
    finally:
        connection.close()
