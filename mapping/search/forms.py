"""The forms of a cascade that a search considers: as given where it needs one pass, else its derived form."""

from __future__ import annotations

from functools import lru_cache

from accel.cascade import Cascade, load_cascade
from accel.schedule import load_template, template_names
from mapping.derive import derive
from mapping.passes import default_rank, passes
from mapping.templates import match

__all__ = ["one_pass_form"]


@lru_cache(maxsize=16)
def one_pass_form(cascade: Cascade) -> Cascade:
    """Return the cascade itself if it needs one pass, else the form that algebra derives; itself if there is none.

    A derived form that is a packaged cascade but for names is returned as that one, so that a saved schedule names it.
    """
    key = next(iter(cascade.partitions.values()), None) or default_rank(cascade)
    if passes(cascade, key).passes == 1:
        return cascade
    found = derive(cascade, key)
    if not found.derived or found.cascade is None:
        return cascade
    served = (load_cascade(load_template(name).cascade) for name in template_names())
    return next((each for each in served if match(each, found.cascade) is not None), found.cascade)
