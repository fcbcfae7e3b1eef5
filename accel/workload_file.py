"""Reads the attention of a model from the kinds of file that models come in."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from accel.attention_file import load_attention_file
from accel.errors import InputError
from accel.onnx_model import read_onnx
from accel.workload import Workload, read_hugging_face_config

__all__ = ["read_workload"]


def read_workload(
    path: str | Path,
    *,
    batch: int | None = None,
    length: int | None = None,
    queries: int | None = None,
    window: int | None = None,
    dims: Mapping[str, int] | None = None,
) -> Workload:
    """Return the attention of one layer of a ``config.json`` or an ``.onnx`` file, or that of an attention file.

    Of an ONNX model with attentions of several sizes it is the one with the most scores.

    Parameters
    ----------
    path : str or Path
        The file; an attention file ends in ``.yaml``.
    batch : int, optional
        Sequences; by default 1, or what the ONNX file says.
    length : int, optional
        Keys, and queries too; by default the model's own.
    queries : int, optional
        Queries where they are fewer than keys.
    window : int, optional
        Keys that a query sees at most, for cascades with a window; by default that of the model, if it has one.
    dims : mapping of str to int, optional
        Sizes of the named dimensions of an ONNX model.

    Raises
    ------
    InputError
        The file breaks a rule, a number is below 1, or dimensions are given for a file that has none.
    ToolMissingError
        The library onnx is needed and not installed.
    """
    file = Path(path)
    if file.suffix.lower() != ".onnx":
        if dims:
            raise InputError(f"only an ONNX model has named dimensions, but {file.name} is none", hint="remove --dim")
        if file.suffix.lower() in (".yaml", ".yml"):
            return _resized(load_attention_file(file).workload, batch, length, queries, window)
        model = read_hugging_face_config(file)
        workload = model.workload(batch=1 if batch is None else batch, length=length, queries=queries)
        return workload if window is None else dataclasses.replace(workload, window=window)
    found = max(read_onnx(file, dims).workloads, key=lambda each: each.batch * each.heads * each.queries * each.keys)
    return _resized(found, batch, length, queries, window)


def _resized(
    found: Workload, batch: int | None, length: int | None, queries: int | None, window: int | None
) -> Workload:
    """Return a workload with the sizes that are given."""
    keys = found.keys if length is None else length
    own_queries = found.queries if length is None else length
    return dataclasses.replace(
        found,
        batch=found.batch if batch is None else batch,
        keys=keys,
        queries=own_queries if queries is None else queries,
        window=found.window if window is None else window,
    )
