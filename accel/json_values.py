"""Reading results back from the JSON values that they gave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from accel.errors import InputError

__all__ = ["from_json_values"]

T = TypeVar("T")


def from_json_values(cls: type[T], values: Mapping[str, Any], what: str) -> T:
    """Return the dataclass whose ``as_dict`` gave ``values``; what stands under ``derived`` follows from the rest.

    Parameters
    ----------
    cls : type
        The dataclass.
    values : mapping
        JSON values.
    what : str
        What messages call it, with its article: ``a result``.

    Raises
    ------
    InputError
        They are not those of a ``cls``.
    """
    given = {key: value for key, value in values.items() if key != "derived"}
    try:
        return TypeAdapter(cls).validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the result"
        raise InputError(
            f"{what} must have the fields of {cls.__module__}.{cls.__qualname__}, but {where}: {first['msg']}",
            hint=f"give what {cls.__qualname__}.as_dict returned",
        ) from None
