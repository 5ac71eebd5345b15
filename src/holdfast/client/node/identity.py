"""Who a node is: `.holdfast/node-identity.json`, readable by its owner only.

Promises: the file is whole after a crash at any moment. The node id is on the disk before the node registers,
with the boot id of its first registration, so a registration whose answer was lost is repeated as the same
one. Never: the credential in a log or repr.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from holdfast.core.check import shown
from holdfast.core.ids import Ids
from holdfast.core.wire import check_new_id, check_project
from holdfast.errors import BadConfig

FILE: Final = "node-identity.json"
FORGE: Final = Path(".forge") / FILE
"""Where earlier plugins kept their node id."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a node."""

    node_id: str
    node_type: str = "plugin"
    project: str = "default"
    gateway: str = ""
    capabilities: list[str] = []
    registered_at: str | None = None
    credential: str | None = None
    """Issued by the server at the first registration."""
    boot_id: str | None = None
    """The boot id of the first registration, until its answer has arrived. A process that starts again before
    repeats the same registration."""

    def __repr__(self) -> str:
        return f"Identity(node_id={self.node_id!r}, project={self.project!r})"


class _Forge(msgspec.Struct, frozen=True, rename="camel"):
    node_id: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller says about the node of a folder. None: whatever the folder has."""

    node_id: str | None
    node_type: str
    project: str | None
    gateway: str
    capabilities: list[str]


def identity_of(folder: Path, wanted: Wanted, ids: Ids) -> Identity:
    """The identity of a folder, which is made and written at first. BadConfig if the folder belongs to
    another node or project."""
    identity = read_identity(folder)
    if identity is None:
        node_id = wanted.node_id or forge_node_id(folder) or f"{wanted.node_type}-{ids.secret()}"
        project = "default" if wanted.project is None else wanted.project
        identity = Identity(
            node_id=check_new_id("node_id", node_id),
            node_type=wanted.node_type,
            project=check_project("project", project),
            gateway=wanted.gateway,
            capabilities=wanted.capabilities,
        )
        write_identity(folder, identity)
    if wanted.node_id not in (None, identity.node_id):
        raise BadConfig(f"{folder} belongs to node {identity.node_id}, not {wanted.node_id}")
    if wanted.project not in (None, identity.project):
        raise BadConfig(
            f"{folder} belongs to project {identity.project}, not {shown(wanted.project)}: use another folder"
        )
    return identity


def read_identity(folder: Path) -> Identity | None:
    """The identity of a folder. None: it has none yet."""
    path = folder / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=Identity)
    except msgspec.DecodeError as error:
        raise BadConfig(f"{path} is not an identity: {error}; restore it or remove it") from None


def forge_node_id(folder: Path) -> str | None:
    """The node id that a plugin of the earlier protocol had beside this folder."""
    try:
        data = (folder.parent / FORGE).read_bytes()
        return msgspec.json.decode(data, type=_Forge).node_id
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_identity(folder: Path, identity: Identity) -> None:
    """Replaces the file in one step."""
    path, new = folder / FILE, folder / f"{FILE}.new"
    new.unlink(missing_ok=True)
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, msgspec.json.format(msgspec.json.encode(identity)) + b"\n")
        os.fsync(file)
    finally:
        os.close(file)
    new.replace(path)
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
