"""The forms of a cascade that a search considers: in one pass where there is one, and as given."""

from __future__ import annotations

from functools import lru_cache

from accel.cascade import Cascade, load_cascade
from accel.schedule import load_template, template_names
from mapping.derive import derive
from mapping.passes import default_rank, passes
from mapping.templates import match

__all__ = ["forms_of"]


@lru_cache(maxsize=16)
def forms_of(cascade: Cascade) -> tuple[tuple[Cascade, bool], ...]:
    """Return the forms of a cascade, each with whether a tile must hold all keys: it needs several passes over them.

    That is the cascade itself if it needs one pass; else the form in one pass that algebra derives, if there is one,
    and the cascade as given. A derived form that is a packaged cascade but for names is returned as that one, so that a
    saved schedule names it.
    """
    key = next(iter(cascade.partitions.values()), None) or default_rank(cascade)
    if passes(cascade, key).passes == 1:
        return ((cascade, False),)
    found = derive(cascade, key)
    if not found.derived or found.cascade is None:
        return ((cascade, True),)
    served = (load_cascade(load_template(name).cascade) for name in template_names())
    derived = next((each for each in served if match(each, found.cascade) is not None), found.cascade)
    return (derived, False), (cascade, True)
