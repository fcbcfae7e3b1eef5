"""Workloads: the attention of one layer, and the public hyper-parameters of models that give it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.errors import InputError, Place, did_you_mean
from accel.spec import read_text

__all__ = ["AttentionModel", "Workload", "model_types", "read_hugging_face_config"]


def _check_positive(value: object, names: tuple[str, ...]) -> None:
    for name in names:
        given = getattr(value, name)
        if given < 1:
            raise InputError(f"{name} must be at least 1, not {given}", field=(name,))


def _check_groups(heads: int, kv_heads: int) -> None:
    if heads % kv_heads:
        raise InputError(
            f"heads must be a multiple of kv_heads, but {heads} is none of {kv_heads}",
            hint=f"use {max(heads // kv_heads, 1) * kv_heads} heads",
            field=("heads",),
        )


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The attention of one layer for one batch.

    Parameters
    ----------
    name : str
        What messages and reports call it.
    batch : int
        Sequences.
    heads, kv_heads : int
        Query heads, and key/value heads that they share in equal groups; equal without grouping.
    queries, keys : int
        Sequence lengths P and M of one head.
    query_key_dim, value_dim : int
        Head dimensions E (of Q and K) and F (of V).
    window : int, optional
        Keys that a query sees at most, for cascades with a window W.

    Raises
    ------
    InputError
        A number is below 1, or the heads do not divide into groups.
    """

    name: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    query_key_dim: int
    value_dim: int
    window: int | None = None

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        window = () if self.window is None else ("window",)
        _check_positive(self, ("batch", "heads", "kv_heads", "queries", "keys", "query_key_dim", "value_dim", *window))
        _check_groups(self.heads, self.kv_heads)

    @property
    def instances(self) -> int:
        """Times that the cascade runs: one for each batch element and key/value head."""
        return self.batch * self.kv_heads

    @property
    def sizes(self) -> dict[str, int]:
        """Rank sizes P, M, E and F of one instance.

        The query heads that share a key/value head are stacked along P, for they read the same K and V: all heads of
        the first position, then those of the next.
        """
        return {
            "P": self.queries * (self.heads // self.kv_heads),
            "M": self.keys,
            "E": self.query_key_dim,
            "F": self.value_dim,
        }

    @property
    def parameters(self) -> dict[str, int]:
        """Values of the parameters that filters use: G query heads for each key/value head, and the window W if any."""
        window = {} if self.window is None else {"W": self.window}
        return {"G": self.heads // self.kv_heads, **window}


@dataclass(frozen=True, kw_only=True)
class AttentionModel:
    """The hyper-parameters of a Transformer that size its layers.

    Parameters
    ----------
    name : str
        The folder or file it was read from.
    model_type : str
        As its configuration names it.
    hidden : int
        Width D of the residual stream.
    layers : int
        Layers.
    heads, kv_heads : int
        Query heads and key/value heads of a layer.
    head_dim : int
        E = F.
    ffn : int
        Inner width of the feed-forward network.
    default_length : int
        Tokens where the user names no length: of an image model those of one image, otherwise the longest sequence.
    window : int, optional
        Keys that a query sees at most, its own position included, in layers with a sliding window; None if no layer
        has one.
    windowed_layers : int
        Layers with that window; the others see all keys up to their own position.

    Raises
    ------
    InputError
        A number is below 1, the heads do not divide into groups, or ``windowed_layers`` does not fit the window.
    """

    name: str
    model_type: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    default_length: int
    window: int | None = None
    windowed_layers: int = 0

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        window = () if self.window is None else ("window",)
        _check_positive(self, ("hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "default_length", *window))
        _check_groups(self.heads, self.kv_heads)
        least, most = (0, 0) if self.window is None else (1, self.layers)
        if not least <= self.windowed_layers <= most:
            raise InputError(
                f"windowed_layers must be {f'{least} to {most}' if most else '0 without a window'}, "
                f"not {self.windowed_layers}",
                field=("windowed_layers",),
            )

    def workload(self, *, batch: int = 1, length: int | None = None, queries: int | None = None) -> Workload:
        """Return the attention of one layer, of one with a window if the model has any.

        Parameters
        ----------
        batch : int
            Sequences.
        length : int, optional
            Keys, and queries too; by default ``default_length``.
        queries : int, optional
            Queries where they are fewer than keys, such as 1 for decoding.

        Raises
        ------
        InputError
            A number is below 1.
        """
        keys = self.default_length if length is None else length
        return Workload(
            name=self.name,
            batch=batch,
            heads=self.heads,
            kv_heads=self.kv_heads,
            queries=keys if queries is None else queries,
            keys=keys,
            query_key_dim=self.head_dim,
            value_dim=self.head_dim,
            window=self.window,
        )


class _Config:
    """The fields of a configuration file, with messages that name the file."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self.values = values

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 1; a missing or null one is ``default``, or an error without one."""
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            raise InputError(
                f"{self.path}: {key!r} must be given for model_type {self.values['model_type']!r}, but is missing",
                hint=did_you_mean(key, self.values),
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(
                f"{self.path}: {key!r} must be a whole number of at least 1, not {json.dumps(value)}",
                hint="take it from the model's own config.json",
            )
        return value

    def truth(self, key: str, default: bool) -> bool:
        """Return true or false; a missing or null one is ``default``."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputError(
                f"{self.path}: {key!r} must be true or false, not {json.dumps(value)}",
                hint="take it from the model's own config.json",
            )
        return value

    def windows(self, pattern: Callable[[int], bool]) -> dict[str, int]:
        """Return ``window`` and ``windowed_layers`` of a model whose layers have a window where ``pattern`` says so.

        ``layer_types`` of the configuration goes before the pattern. A window that is null is none; one that is missing
        is the library's default.
        """
        layers = self.integer("num_hidden_layers")
        if "sliding_window" in self.values and self.values["sliding_window"] is None:
            return {}
        window = self.integer("sliding_window", _LIBRARY_WINDOW)
        kinds = self.values.get("layer_types")
        if kinds is None:
            count = sum(pattern(layer) for layer in range(layers))
        elif isinstance(kinds, list) and len(kinds) == layers and all(kind in _LAYER_TYPES for kind in kinds):
            count = kinds.count("sliding_attention")
        else:
            raise InputError(
                f"{self.path}: 'layer_types' must list {layers} times one of {', '.join(_LAYER_TYPES)}, as "
                "'num_hidden_layers' says",
                hint="take both from the model's own config.json",
            )
        return {"window": window, "windowed_layers": count} if count else {}

    def head_dim(self, hidden_key: str, heads_key: str) -> int:
        """Return hidden size over heads."""
        hidden, heads = self.integer(hidden_key), self.integer(heads_key)
        if hidden % heads:
            raise InputError(
                f"{self.path}: {hidden_key!r} must be a multiple of {heads_key!r}, but {hidden} is none of {heads}",
                hint="take both from the model's own config.json",
            )
        return hidden // heads

    def model(self, **fields: int) -> AttentionModel:
        """Return the model that has ``fields``."""
        name = self.path.parent.name if self.path.stem == "config" and self.path.parent.name else self.path.stem
        try:
            return AttentionModel(name=name, model_type=self.values["model_type"], **fields)
        except InputError as error:
            problem = error.problems[0]
            raise InputError(f"{self.path}: {problem.message}", hint=problem.hint, field=problem.field) from None


def _bert(config: _Config) -> AttentionModel:
    heads = config.integer("num_attention_heads")
    return config.model(
        hidden=config.integer("hidden_size"),
        layers=config.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=config.head_dim("hidden_size", "num_attention_heads"),
        ffn=config.integer("intermediate_size"),
        default_length=config.integer("max_position_embeddings"),
    )


def _gpt2(config: _Config) -> AttentionModel:
    hidden, heads = config.integer("n_embd"), config.integer("n_head")
    return config.model(
        hidden=hidden,
        layers=config.integer("n_layer"),
        heads=heads,
        kv_heads=heads,
        head_dim=config.head_dim("n_embd", "n_head"),
        ffn=config.integer("n_inner", 4 * hidden),
        default_length=config.integer("n_positions"),
    )


def _vit(config: _Config) -> AttentionModel:
    heads = config.integer("num_attention_heads")
    image, patch = config.integer("image_size"), config.integer("patch_size")
    if image % patch:
        raise InputError(
            f"{config.path}: 'image_size' must be a multiple of 'patch_size', but {image} is none of {patch}",
            hint="take both from the model's own config.json",
        )
    return config.model(
        hidden=config.integer("hidden_size"),
        layers=config.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=config.head_dim("hidden_size", "num_attention_heads"),
        ffn=config.integer("intermediate_size"),
        default_length=(image // patch) ** 2 + 1,  # one token for each patch, and the class token
    )


def _llama(config: _Config, windows: Mapping[str, int] | None = None) -> AttentionModel:
    heads = config.integer("num_attention_heads")
    given = config.values.get("head_dim") is not None
    return config.model(
        hidden=config.integer("hidden_size"),
        layers=config.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=config.integer("head_dim") if given else config.head_dim("hidden_size", "num_attention_heads"),
        ffn=config.integer("intermediate_size"),
        default_length=config.integer("max_position_embeddings"),
        **windows or {},
    )


# Sliding windows. Rules and defaults are those of the configuration classes of Hugging Face transformers 4.53
# (MistralConfig, Qwen2Config, Gemma2Config, Gemma3TextConfig); heads and dimensions must be given.

_LIBRARY_WINDOW = 4096
_LAYER_TYPES = ("full_attention", "sliding_attention")
_QWEN2_FULL_LAYERS = 28
_GEMMA3_PATTERN = 6


def _mistral(config: _Config) -> AttentionModel:
    config.integer("num_key_value_heads")
    return _llama(config, config.windows(lambda layer: True))


def _qwen2(config: _Config) -> AttentionModel:
    config.integer("num_key_value_heads")
    if not config.truth("use_sliding_window", default=False):
        return _llama(config)
    full = config.values.get("max_window_layers")  # the first layers see all keys; 0 is a count here
    first = (
        full if full == 0 and not isinstance(full, bool) else config.integer("max_window_layers", _QWEN2_FULL_LAYERS)
    )
    return _llama(config, config.windows(lambda layer: layer >= first))


def _gemma2(config: _Config) -> AttentionModel:
    config.integer("num_key_value_heads")
    config.integer("head_dim")
    return _llama(config, config.windows(lambda layer: layer % 2 == 0))


def _gemma3(config: _Config) -> AttentionModel:
    config.integer("num_key_value_heads")
    config.integer("head_dim")
    every = config.integer("sliding_window_pattern", _GEMMA3_PATTERN)
    return _llama(config, config.windows(lambda layer: (layer + 1) % every != 0))


_READERS: Mapping[str, Callable[[_Config], AttentionModel]] = {
    "bert": _bert,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "vit": _vit,
}


def model_types() -> tuple[str, ...]:
    """Return the values of ``model_type`` that ``read_hugging_face_config`` understands."""
    return tuple(_READERS)


def read_hugging_face_config(path: str | Path) -> AttentionModel:
    """Return the hyper-parameters that a Hugging Face ``config.json`` states; fields of no concern are skipped.

    Raises
    ------
    InputError
        The file cannot be read, is not a JSON object, has an unknown ``model_type``, lacks a field, or a field has the
        wrong type or value.
    """
    file = Path(path)
    text = read_text(file)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        for key, count in Counter(key for key, _ in pairs).items():
            if count > 1:
                raise InputError(
                    f"{file}: key {key!r} must stand once, but stands {count} times", hint="remove all but one"
                )
        return values

    try:
        values = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = Place(file=str(file), line=error.lineno, column=error.colno)
        raise InputError(
            f"the text must be JSON: {error.msg}", hint="give a model's config.json", place=place
        ) from None
    except InputError:
        raise
    except (RecursionError, ValueError):  # nested without end, or a number of thousands of digits
        raise InputError(f"{file} must be plain JSON", hint="give a model's config.json") from None
    if not isinstance(values, dict):
        raise InputError(f"{file} must hold a JSON object", hint="give a model's config.json")
    model_type = values.get("model_type")
    if not isinstance(model_type, str) or model_type not in _READERS:
        given = json.dumps(model_type) if "model_type" in values else "missing"
        raise InputError(
            f"{file}: 'model_type' must be one of {', '.join(_READERS)}, but is {given}",
            hint="other models can be described by one of these types if their attention has the same shape",
        )
    return _READERS[model_type](_Config(file, values))
