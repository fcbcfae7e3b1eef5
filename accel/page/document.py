"""The page around charts and tables: one HTML file with its style and script inside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

__all__ = ["Section", "page", "table"]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page.

    Parameters
    ----------
    title : str
        Its heading.
    body : str
        HTML that the functions of this package returned.
    source : str
        Where its numbers come from, in words.
    note : str
        What a reader must know beside it.
    """

    title: str
    body: str
    source: str
    note: str = ""

    @property
    def anchor(self) -> str:
        """Its identifier within the page."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[int] = ()) -> str:
    """Return a table that a click or key on a head sorts; columns in ``numbers`` align to the right."""
    head = "".join(
        f'<th scope="col"{_number(index, numbers)}><button type="button">{escape(text)}</button></th>'
        for index, text in enumerate(heads)
    )
    body = "".join(f"<tr>{_cells(row, numbers)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="sortable"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def page(
    *,
    title: str,
    verdict: str,
    good: bool | None,
    summary: Sequence[tuple[str, str]],
    command: str,
    sections: Sequence[Section],
) -> str:
    """Return the page.

    Parameters
    ----------
    title : str
        Of the page.
    verdict : str
        The answer in one sentence.
    good : bool, optional
        Whether it is good news; None where that is no question.
    summary : sequence of (str, str)
        Main figures, each with its name.
    command : str
        What makes the page again.
    sections : sequence of Section
        In order.
    """
    text: str = _template().render(
        title=title, verdict=verdict, good=good, summary=summary, command=command, sections=sections, safe=Markup
    )
    return text


def _cells(row: Sequence[str], numbers: Collection[int]) -> str:
    return "".join(f"<td{_number(index, numbers)}>{escape(cell)}</td>" for index, cell in enumerate(row))


def _number(index: int, numbers: Collection[int]) -> str:
    return ' class="number"' if index in numbers else ""


@lru_cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(files("accel.page").joinpath("page.html.jinja").read_text(encoding="utf-8"))
