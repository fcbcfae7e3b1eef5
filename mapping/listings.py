"""The taxonomy of the packaged cascades: what ``einrtl list cascades`` shows and ``docs/zoo.md`` is made of."""

from __future__ import annotations

from typing import Any

from accel.cascade import load_cascade
from accel.zoo import TEMPLATES, ZooEntry, load_zoo
from mapping.characteristics import operations_per_score, state_words
from mapping.passes import passes

__all__ = ["cascades", "zoo_page"]


_HEAD = """\
# The zoo of cascades

Made by `einrtl zoo`, from the same numbers as `einrtl list cascades`; a test keeps it current.

{rows} cascades. For {published} of their forms a pass count was known beforehand, from a paper or worked out by hand
from its formula; the analysis agrees with {same}. Several forms were written so as to reach that count, so agreement
says that a form has the count, not that none has fewer. Author names and arXiv numbers were not all looked up again.

Each cascade is checked against its formula in `tests/accel/test_zoo.py`, in float64 to 1e-9 of the largest element.
Those that take scores are checked in float32 as well, with scores of 1e4 and -1e4, equal ones, and rows masked but for
one, where the formula defines the result.

- **C**, **M**: passes over the key rank (or the one reduced). C where the weights are multiplied with values at once;
  M where the weights, or the normalised vector, are written out.
- **State**: words that a row keeps from one element to the next.
- **Operations** at each score; products with keys and values, and work for a row or a tile, are left out. A power
  counts as exp, a minimum or ReLU as max, a subtraction as add.

| cascade | C | M | state | operations per score | template | source |
|---|---|---|---|---|---|---|
"""


def cascades() -> list[dict[str, Any]]:
    """Return one row for each packaged cascade.

    ``passes_contracted`` counts passes where the weights are multiplied with values at once, ``passes_materialised``
    where the weights or the normalised vector are written out; None where there is no such form. State and operations
    are those of the contracted form if there is one.
    """
    return [_row(name, entry) for name, entry in load_zoo().entries.items()]


def _row(name: str, entry: ZooEntry) -> dict[str, Any]:
    forms = entry.forms
    counts = {form: passes(cascade, entry.rank).passes for form, cascade in forms.items()}
    main = next(iter(forms.values()))
    return {
        "name": name,
        "passes_contracted": counts.get("contracted"),
        "passes_materialised": counts.get("materialised"),
        "state": state_words(main, entry.rank, entry.score),
        "operations_per_score": operations_per_score(main, entry.score),
        "template": entry.template,
        "source": source(name),
    }


def source(name: str) -> str:
    """Return where a packaged cascade comes from, as its description says: up to the first full stop."""
    text = " ".join(load_cascade(name).description.split()).partition("Source: ")[2]
    # Initials and "et al." end in full stops too; what follows them is not a new sentence.
    words = text.split(" ")
    for number, word in enumerate(words):
        if word.endswith(".") and word != "al." and not (len(word) == 2 and word[0].isupper()):
            return " ".join(words[: number + 1]).rstrip(".")
    return text


def zoo_page() -> str:
    """Return the text of ``docs/zoo.md``."""
    zoo, rows = load_zoo(), cascades()
    published = [
        (row["name"], form, row[f"passes_{form}"], literature, zoo.entries[row["name"]].note)
        for row in rows
        for form in ("contracted", "materialised")
        if (literature := getattr(zoo.entries[row["name"]].literature, form)) is not None
    ]
    differ = [each for each in published if each[2] != each[3]]
    lines = _HEAD.format(rows=len(rows), published=len(published), same=len(published) - len(differ)).splitlines()
    for row in rows:
        cells = [row[key] if row[key] is not None else "" for key in row]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", "## Templates", "", "| template | what marks it |", "|---|---|"]
    lines += [f"| {name} | {text} |" for name, text in TEMPLATES.items()]
    lines += ["", "## Where the count differs from the one known beforehand", ""]
    lines += [
        f"- `{name}`, {form}: {found}, where {given} was known beforehand. {note}"
        for name, form, found, given, note in differ
    ]
    same = [
        (name, entry.note) for name, entry in zoo.entries.items() if entry.note and name not in {d[0] for d in differ}
    ]
    lines += ["", "## Notes", ""] + [f"- `{name}`: {note}" for name, note in same]
    lines += ["", "## Left out", ""] + [f"- {each.name}: {each.reason}." for each in zoo.left_out]
    return "\n".join(lines) + "\n"
