"""`holdfast host import`: many hosts from a file.

Promises: a text that is too long for one request is read here and sent in parts; the answer is the same. A
line that is wrong is named, and the others are imported. Repeated, an import changes nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v1
from holdfast.cli.options import COMMON, Common, DryRun, Flag, Project, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.problem import PARTIAL, Usage
from holdfast.cli.session import remark, with_queue
from holdfast.cli.values import STDIN
from holdfast.client.calls import Calls
from holdfast.core.fleet.hosts.entry import HostEntry
from holdfast.core.fleet.hosts.inventory import InventoryFormat, read_inventory
from holdfast.core.fleet.hosts.listing import Inventory
from holdfast.errors import NotFound

TEXT_BYTES_MAX: Final = 524_288
"""A longer text is sent as entries, in parts of about this size."""
ERRORS_SHOWN_MAX: Final = 20
FORMATS: Final = {
    ".jsonl": InventoryFormat.JSONL,
    ".ndjson": InventoryFormat.JSONL,
    ".json": InventoryFormat.ANSIBLE_JSON,
    ".txt": InventoryFormat.TEXT,
    ".ini": InventoryFormat.ANSIBLE,
    "": InventoryFormat.ANSIBLE,
}
"""The format of a file by the end of its name."""
Report = dict[str, Any]


def import_(
    file: Annotated[str, Parameter(help="A file, or - for stdin.")],
    /,
    *,
    format: Annotated[
        InventoryFormat | None,
        Parameter(help="How it is written; default: by the end of its name, of stdin jsonl."),
    ] = None,
    groups: Annotated[
        Flag, Parameter(help="Also add and change the groups of the inventory.")
    ] = False,
    project: Project = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int:
    """Add and change many hosts. Exit code 3 if some entries are wrong, 1 if all are."""
    text, kind = _read(file), format or _format(file)

    async def work(queue: TaskQueue) -> Report:
        calls = await calls_of(queue)
        if dry_run:
            return await _foresee(calls, read_inventory(text, kind), project)
        body = {"text": text, "format": kind, "groups": groups, "project": project}
        if len(text.encode()) <= TEXT_BYTES_MAX:
            return await _post(calls, body | {"reason": reason})
        found = read_inventory(text, kind)
        report = await _in_parts(calls, found, {"project": project, "reason": reason})
        if groups:
            report["groups"] = await _put_groups(calls, found.groups, project, reason)
        return report

    report = with_queue(common, work)
    _print(common, report)
    taken = report["added"] + report["changed"] + report["unchanged"]
    if not report["failed"]:
        return 0
    return PARTIAL if taken else 1


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise Usage(f"'{file}' cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Usage(f"'{file}' is not text in UTF-8") from None


def _format(file: str) -> InventoryFormat:
    if file == STDIN:
        return InventoryFormat.JSONL
    suffix = Path(file).suffix.lower()
    if suffix in FORMATS:
        return FORMATS[suffix]
    if suffix in (".yml", ".yaml"):
        raise Usage(
            f"an inventory in YAML is not read: run ansible-inventory -i {file} --list > hosts.json and "
            "import that"
        )
    names = ", ".join(kind.value for kind in InventoryFormat)
    raise Usage(f"the name of '{file}' does not tell how it is written: give --format ({names})")


async def _post(calls: Calls, body: dict[str, Any]) -> Report:
    report: Report = (await calls.call("POST", v1("hosts", "import"), body)).body
    return report


async def _in_parts(calls: Calls, found: Inventory, common: dict[str, Any]) -> Report:
    """The same as one call with the text."""
    wrong = [{"line": each.line, "message": each.message} for each in found.problems]
    whole: Report = {"added": 0, "changed": 0, "unchanged": 0}
    whole |= {"failed": len(wrong) + found.more_problems, "errors": wrong, "groups": []}
    for part in _parts(found.entries):
        report = await _post(calls, {"hosts": part, **common})
        for name in ("added", "changed", "unchanged", "failed"):
            whole[name] += report[name]
        whole["errors"] += report["errors"]
    return whole


def _parts(entries: tuple[HostEntry, ...]) -> list[list[HostEntry]]:
    parts: list[list[HostEntry]] = [[]]
    size = 0
    for entry in entries:
        size += len(msgspec.json.encode(entry))
        if size > TEXT_BYTES_MAX and parts[-1]:
            parts.append([])
            size = 0
        parts[-1].append(entry)
    return parts


async def _put_groups(
    calls: Calls, groups: dict[str, str], project: str | None, reason: str
) -> list[str]:
    """Returns those that were added or changed."""
    changed: list[str] = []
    query = {"project": project}
    for name, selector in groups.items():
        body: dict[str, Any] = {"selector": selector, "reason": reason}
        try:
            known = (await calls.call("GET", v1("groups", name), query=query)).body
        except NotFound:
            await calls.call("POST", v1("groups"), body | {"name": name, "project": project})
        else:
            if known["selector"] == selector:
                continue
            await calls.call("PATCH", v1("groups", name), body, query=query)
        changed.append(name)
    return changed


async def _foresee(calls: Calls, found: Inventory, project: str | None) -> Report:
    """What an import would do, by the hosts as they are now."""
    known: dict[str, Any] = {}
    after = None
    while True:
        query = {"project": project, "limit": 1000, "after": after}
        page = (await calls.call("GET", v1("hosts"), query=query)).body
        known |= {item["name"]: item for item in page["items"]}
        after = page["next"]
        if after is None:
            break
    added = [entry for entry in found.entries if entry.name not in known]
    changed = [e for e in found.entries if e.name in known and _differs(e, known[e.name])]
    return {
        "dry_run": True,
        "added": len(added),
        "changed": len(changed),
        "unchanged": len(found.entries) - len(added) - len(changed),
        "failed": len(found.problems) + found.more_problems,
        "errors": [{"line": each.line, "message": each.message} for each in found.problems],
        "groups": sorted(found.groups),
    }


def _differs(entry: HostEntry, item: dict[str, Any]) -> bool:
    fields = ("driver", "address", "labels", "state")
    return any(getattr(entry, name) not in (None, item[name]) for name in fields)


def _print(common: Common, report: Report) -> None:
    would = "would be " if report.get("dry_run") else ""
    lines = [
        (f"{would}added", report["added"]),
        (f"{would}changed", report["changed"]),
        ("unchanged", report["unchanged"]),
        ("wrong", report["failed"]),
        ("groups", ", ".join(report["groups"])),
    ]
    printer = Printer(common)
    printer.one(report, lines, name=report["added"] + report["changed"])
    if not printer.is_table:
        return
    for error in report["errors"][:ERRORS_SHOWN_MAX]:
        place = f"line {error['line']}" if "line" in error else error["name"]
        remark(f"{place}: {error['message']}")
    if (more := report["failed"] - ERRORS_SHOWN_MAX) > 0:
        remark(f"... and {more} more")
