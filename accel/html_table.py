"""Small tables in HTML: how results show themselves in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table without style of its own, so that it looks as the page around it does.

    Parameters
    ----------
    caption : str
        What the table holds.
    heads : sequence of str
        Column heads; none for a table of quantities, whose first column names them.
    rows : iterable of sequence
        Cells, of which every text is escaped; the first of a row is its head.
    """
    parts = ["<table>", f"<caption>{escape(caption)}</caption>"]
    if heads:
        parts.append(
            "<thead><tr>" + "".join(f'<th scope="col">{escape(head)}</th>' for head in heads) + "</tr></thead>"
        )
    parts.append("<tbody>")
    for first, *others in rows:
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in others)
        parts.append(f'<tr><th scope="row">{escape(str(first))}</th>{cells}</tr>')
    parts += ["</tbody>", "</table>"]
    return "\n".join(parts)
