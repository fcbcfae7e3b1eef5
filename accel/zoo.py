"""What is known about each packaged cascade beyond its text: its kind, and the pass counts of the literature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from accel import spec
from accel.cascade import Cascade, load_cascade
from accel.errors import InputError

__all__ = ["TEMPLATES", "LeftOut", "PassCounts", "Zoo", "ZooEntry", "load_zoo"]

TEMPLATES: Mapping[str, str] = {
    "pointwise": "each element alone; a weighted sum needs nothing more",
    "sum-normalised": "weights that cannot overflow over their sum",
    "exp-normalised": "weights in proportion to exp(-maximum): running maximum, corrected sums",
    "statistic-then-apply": "a nonlinear function of the normalised weight, or a statistic inside the exponent",
    "kernel-state": "keys and values summed in a state whose size does not depend on their number",
    "select": "membership depends on the other elements of the row",
    "normalisation": "a mean or a mean square divides the row",
    "reduction": "a row becomes one value",
    "definition": "a form as it is defined, before its passes are reduced",
}
"""Kinds of cascade, with what marks them."""


@dataclass(frozen=True, kw_only=True)
class PassCounts:
    """Numbers of passes over the rank.

    Parameters
    ----------
    contracted : int, optional
        Where the weights go into a product with values at once.
    materialised : int, optional
        Where the weights, or the normalised vector, are written out.
    """

    contracted: int | None = None
    materialised: int | None = None

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class ZooEntry:
    """One algorithm of the zoo.

    Parameters
    ----------
    template : str
        A key of ``TEMPLATES``.
    contracted, materialised : str, optional
        The cascade of each form, as ``accel.cascade.load_cascade`` takes it; at least one.
    rank : str
        The rank whose passes count.
    score : str
        The tensor whose points are the scores (or elements) for which operations are counted.
    literature : PassCounts
        The counts that the literature gives or that follow from its text; empty where it gives none.
    note : str
        Why a count differs from the literature's, or what the cascade leaves out.

    Raises
    ------
    InputError
        The template is unknown, or the entry has no form.
    """

    template: str
    contracted: str | None = None
    materialised: str | None = None
    rank: str = "m"
    score: str = "X"
    literature: PassCounts = PassCounts()
    note: str = ""

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check the template and the forms."""
        if self.template not in TEMPLATES:
            raise InputError(
                f"template must be one of {', '.join(TEMPLATES)}, not {self.template!r}",
                hint="see accel.zoo.TEMPLATES",
                field=("template",),
            )
        if self.contracted is None and self.materialised is None:
            raise InputError("an entry of the zoo must have a contracted or a materialised form", hint="name one")

    @property
    def forms(self) -> Mapping[str, Cascade]:
        """The cascades by form, ``contracted`` first."""
        names = {"contracted": self.contracted, "materialised": self.materialised}
        return {form: load_cascade(name) for form, name in names.items() if name is not None}


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """An algorithm of the literature that has no cascade here.

    Parameters
    ----------
    name : str
        What it is called, with its source.
    reason : str
        Why it is left out.
    """

    name: str
    reason: str

    __pydantic_config__ = {"extra": "forbid"}


@dataclass(frozen=True, kw_only=True)
class Zoo:
    """All entries.

    Parameters
    ----------
    entries : mapping of str to ZooEntry
        By the name of the packaged file.
    left_out : tuple of LeftOut
        What the zoo lacks.
    """

    entries: Mapping[str, ZooEntry]
    left_out: tuple[LeftOut, ...] = field(default=())

    __pydantic_config__ = {"extra": "forbid"}


@cache
def load_zoo() -> Zoo:
    """Return the zoo that comes with the package."""
    text = (files("accel") / "data" / "zoo.yaml").read_text(encoding="utf-8")
    return spec.loads(Zoo, text, file="zoo.yaml")
