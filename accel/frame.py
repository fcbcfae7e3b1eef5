"""Vision transformers as frame workloads: the layers that one image passes through, as plain data.

A frame is one image. Its patches become tokens; every block normalises, attends, adds, normalises again and passes the
tokens through a feed-forward layer, which is dense or a mixture of experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from accel.errors import InputError
from accel.presets import load_preset, preset_names

__all__ = ["FeedForward", "VisionTransformer", "frame_names", "load_frame"]


def _check_positive(value: object, *names: str) -> None:
    for name in names:
        given = getattr(value, name)
        if given < 1:
            raise InputError(f"{name} must be at least 1, not {given}", hint="use 1", field=(name,))


@dataclass(frozen=True, kw_only=True)
class FeedForward:
    """The feed-forward layer of a block: one dense pair of linear layers, or experts of which each token sees some.

    Parameters
    ----------
    hidden : int
        Features between the two linear layers (of each expert).
    experts : int
        Experts; 1 is a dense layer without a gate.
    chosen : int
        Experts that each token passes through.

    Raises
    ------
    InputError
        A number is below 1, or more experts are chosen than there are.
    """

    hidden: int
    experts: int = 1
    chosen: int = 1

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        _check_positive(self, "hidden", "experts", "chosen")
        if self.chosen > self.experts:
            raise InputError(
                f"chosen must be at most experts ({self.experts}), not {self.chosen}",
                hint=f"use {self.experts}",
                field=("chosen",),
            )

    @property
    def is_moe(self) -> bool:
        """Whether a gate chooses among experts."""
        return self.experts > 1


@dataclass(frozen=True, kw_only=True)
class VisionTransformer:
    """A vision transformer and the image that it takes.

    Parameters
    ----------
    name, source : str
        What it is called, and where its numbers come from.
    image_channels, image_height, image_width : int
        The image, in pixels.
    patch : int
        Height and width of a patch, a divisor of both sides of the image.
    class_token : bool
        Whether one token is added to those of the patches.
    width : int
        Features of a token, d.
    heads, head_dim : int
        Attention heads, and features of each.
    pattern : tuple of FeedForward
        Feed-forward layers of successive blocks.
    repeats : int
        How often the pattern comes; blocks are ``repeats * len(pattern)``.

    Raises
    ------
    InputError
        A number is below 1, the pattern is empty, or patches do not fill the image.
    """

    name: str
    source: str
    image_channels: int
    image_height: int
    image_width: int
    patch: int
    class_token: bool
    width: int
    heads: int
    head_dim: int
    pattern: tuple[FeedForward, ...]
    repeats: int

    __pydantic_config__ = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check every field."""
        _check_positive(self, "image_channels", "image_height", "image_width", "patch", "width", "heads", "head_dim")
        _check_positive(self, "repeats")
        if not self.pattern:
            raise InputError("pattern must hold at least one layer", hint="add - hidden: 768", field=("pattern",))
        for name in ("image_height", "image_width"):
            if getattr(self, name) % self.patch:
                raise InputError(
                    f"{name} must be a multiple of patch ({self.patch}), not {getattr(self, name)}",
                    hint=f"use {-(-getattr(self, name) // self.patch) * self.patch}",
                    field=(name,),
                )

    @property
    def patches(self) -> int:
        """Patches of an image."""
        return (self.image_height // self.patch) * (self.image_width // self.patch)

    @property
    def patch_features(self) -> int:
        """Numbers of a patch: all channels of its pixels."""
        return self.image_channels * self.patch**2

    @property
    def tokens(self) -> int:
        """Tokens of a frame, N."""
        return self.patches + self.class_token

    @property
    def attention_width(self) -> int:
        """Features of all heads together."""
        return self.heads * self.head_dim

    @property
    def feed_forwards(self) -> tuple[FeedForward, ...]:
        """The feed-forward layer of each block."""
        return self.pattern * self.repeats

    @cached_property
    def macs(self) -> dict[str, int]:
        """Multiply-accumulates of a frame, by kind of layer."""
        tokens, projected = self.tokens, 4 * self.width * self.attention_width
        layers = self.feed_forwards
        feed = sum(layer.chosen * 2 * self.width * layer.hidden for layer in layers)
        return {
            "patch embedding": self.patches * self.patch_features * self.width,
            "projections": len(layers) * tokens * projected,
            "attention": len(layers) * 2 * tokens**2 * self.attention_width,
            "feed-forward": tokens * feed,
            "gates": sum(tokens * self.width * layer.experts for layer in layers if layer.is_moe),
        }

    @property
    def weights(self) -> int:
        """Weights of all linear layers; biases and normalisation are not counted."""
        layers = self.feed_forwards
        return (
            self.patch_features * self.width
            + len(layers) * 4 * self.width * self.attention_width
            + sum(2 * layer.experts * self.width * layer.hidden for layer in layers)
            + sum(self.width * layer.experts for layer in layers if layer.is_moe)
        )


def frame_names() -> tuple[str, ...]:
    """Return the names of the packaged frame workloads, sorted."""
    return preset_names("frame")


def load_frame(name_or_path: str) -> VisionTransformer:
    """Return a packaged frame workload by name, or the one that a YAML file describes.

    Raises
    ------
    InputError
        None has the name, or the file breaks a rule.
    """
    return load_preset(VisionTransformer, "frame", name_or_path, what="a vision transformer")
