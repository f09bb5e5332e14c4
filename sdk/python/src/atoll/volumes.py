"""Volumes: directories that outlive sandboxes and are shown in several of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

VolumeAccess = Literal["read_only", "writer", "shared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMount:
    """A volume, by its id or name, that a sandbox is to have at a path.

    `writer` writes, and no other sandbox does meanwhile; `shared` writes beside others that say so too.
    """

    volume: str
    path: str
    access: VolumeAccess = "writer"


@dataclass(frozen=True, slots=True, kw_only=True)
class MountedVolume:
    """A volume that a sandbox has."""

    volume_id: str
    name: str
    path: str
    access: VolumeAccess
    warning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeUse:
    """How a sandbox has a volume. One that is stopped does not hold it, and keeps nobody from anything."""

    sandbox_id: str
    path: str
    access: VolumeAccess
    is_held: bool
    sandbox_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeCopy:
    """How a volume came of another one, which may be gone: by `subvolume`, `reflink` or `copy`."""

    of: str
    way: Literal["rename", "subvolume", "reflink", "copy", "archive"]
    copied_bytes: int
    frozen_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeLimit:
    """The most that may lie on a volume.

    The file system has writing beyond it fail; or the server measures, and stops who writes to a full one.
    """

    bytes: int
    enforced_by: Literal["file_system", "measurement"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume. While a sandbox has it, it is not deleted. One that is read-only nobody ever writes to."""

    id: str
    name: str
    labels: Mapping[str, str]
    created_at: datetime
    used_by: tuple[VolumeUse, ...]
    is_read_only: bool = False
    copied: VolumeCopy | None = None
    limit: VolumeLimit | None = None
    used_bytes: int | None = None
    host_path: str | None = None
