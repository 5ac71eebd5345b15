"""The objects of the API as the pages declare them: every field is one that the gateway sends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.client import admin_models, fleet_models, job_models, models, webhook_models

LIB = Path(__file__).resolve().parents[2] / "web" / "src" / "lib"
FILES = ("types.ts", "fleet.ts")
STRUCTS = {
    name: struct
    for module in (models, admin_models, job_models, fleet_models, webhook_models)
    for name, struct in vars(module).items()
    if isinstance(struct, type) and issubclass(struct, msgspec.Struct)
}
RENAMED = {
    "AuditRow": "AuditView",
    "Excluded": "ExcludedHost",
    "Folded": "FoldedOutput",
    "Glass": "BreakGlassView",
    "Group": "DeadGroup",
    "HostGroup": "GroupView",
    "Matrix": "JobMatrix",
    "OutputGroup": "OutputGroupView",
    "Selection": "HostSelection",
}
"""Objects that the pages call otherwise. The others have the name of the struct, or that without `View`."""
OTHERS = {
    "DryRun": "the answer of a bulk change that is tried (gateway/operations/bulk.py)",
    "Rollout": "the policy of a job: it is sent as core has it",
}
"""Objects without a struct of the client."""
INTERFACE = re.compile(r"^(?:export )?interface (\w+)[^{]*\{(.*?)\}$", re.MULTILINE | re.DOTALL)


def test_every_field_of_the_pages_is_one_of_the_api() -> None:
    objects = [(name, fields) for file in FILES for name, fields in interfaces(file)]
    assert len(objects) > 40
    unknown = [
        f"{name}.{field}"
        for name, fields in objects
        if name not in OTHERS
        for field in sorted(set(fields) - sent(struct_of(name)))
    ]
    assert unknown == []


def struct_of(name: str) -> type[msgspec.Struct]:
    named = RENAMED.get(name, name)
    return STRUCTS.get(f"{named}View") or STRUCTS[named]


def sent(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def interfaces(file: str) -> Iterator[tuple[str, list[str]]]:
    """The names of interfaces with their own fields. Fields of an object inside are left out."""
    for name, body in INTERFACE.findall((LIB / file).read_text("utf-8")):
        flat = re.sub(r"\{[^{}]*\}", "", body)
        yield name, re.findall(r"(?:^|;)\s*(\w+)\??:", flat)
