"""Images that sandboxes are made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

ImagePull = Literal["missing", "never", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageName:
    """A name of an image, and the digest of the manifest that its registry had by that."""

    name: str
    manifest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """How an image wants to be run. Of that a sandbox has the variables and the directory; nothing is started."""

    env: tuple[str, ...]
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    ports: tuple[str, ...]
    workdir: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that is there. `size_bytes` is of all its layers, those that it shares with others included."""

    digest: str
    names: tuple[ImageName, ...]
    layers: tuple[str, ...]
    size_bytes: int
    config: ImageConfig
    architecture: str
    created_at: datetime
    used_at: datetime
    built_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageProgress:
    """How far a pull is, of the layers that are not there yet; all 0 until it is known what comes."""

    layers_total: int
    layers_done: int
    bytes_total: int
    bytes_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many images were removed, and of layers that no image had any more how many and how large."""

    images: int
    layers: int
    bytes: int
