"""Prints the outputs of many hosts, with equal ones once.

Promises: bounded, whatever hosts have written: some lines of some groups. Never: lets output control the
terminal.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.cli.commands.fleet.job_view import cut
from holdfast.cli.options import Output
from holdfast.cli.output.printer import Printer
from holdfast.core.output import StreamName
from holdfast.core.text import lines, one_line

LINES_SHOWN: Final = 20
LINE_CHARS: Final = 400
Folded = dict[str, Any]


def has_text(item: Folded | None) -> bool:
    """Whether a host has written something."""
    return item is not None and any(group["bytes"] for group in item["groups"])


def errors_of(item: Folded) -> Folded | None:
    """Standard error, without the hosts that have written none. None: no host has."""
    groups = [group for group in item["groups"] if group["bytes"]]
    if not groups:
        return None
    differing = sum(group["count"] for group in groups[1:])
    kept = {"groups": groups, "differing": differing, "missing": "", "missing_count": 0}
    return item | kept


def headline(item: Folded) -> str:
    """987 same, 13 differ."""
    groups = item["groups"]
    if not has_text(item):
        return f"no {item['stream']}"
    same = groups[0]["count"]
    parts = [f"{same} same"] + ([f"{item['differing']} differ"] if item["differing"] else [])
    if item["missing_count"]:
        parts.append(f"{item['missing_count']} without")
    return f"{item['stream']}: {', '.join(parts)}"


def print_folded(printer: Printer, item: Folded, job: str) -> None:
    if printer.output is Output.JSON:
        printer.document(item)
    elif printer.output is Output.JSONL:
        for group in item["groups"]:
            printer.object(group)
    elif printer.output is Output.NAME:
        for group in item["groups"]:
            print(one_line(group["hosts"]))
    else:
        print_groups(printer, item, job)


def print_groups(
    printer: Printer,
    item: Folded,
    job: str,
    *,
    groups: int | None = None,
    most: int = LINES_SHOWN,
) -> None:
    """The headline and the groups. No group is shown if no host has written something."""
    print(printer.paint(one_line(headline(item)), "bold"))
    if has_text(item):
        for text in folded_lines(item, job, groups=groups, most=most):
            print(text)


def folded_lines(
    item: Folded, job: str, *, groups: int | None = None, most: int = LINES_SHOWN
) -> list[str]:
    """The groups: their hosts, and the start of their output. Clean lines. `job`: a name of it that commands
    take."""
    found: list[str] = []
    shown = item["groups"] if groups is None else item["groups"][:groups]
    for group in shown:
        empty = "" if group["bytes"] else " (empty)"
        found.append(one_line(f"--- {group['count']}: {cut(group['hosts'])}{empty}"))
        found += sample_lines(group, most, job, item["stream"])
    more = item["more_groups"] + len(item["groups"]) - len(shown)
    if more:
        found.append(f"--- and {more} other outputs")
    if item["missing_count"]:
        found.append(one_line(f"--- {item['missing_count']} without: {cut(item['missing'])}"))
    return found


def sample_lines(group: dict[str, Any], most: int, job: str, stream: str) -> list[str]:
    text = lines(group["sample"].rstrip("\n"))
    shown = [cut(line, LINE_CHARS) for line in text.split("\n")[:most]] if text else []
    left = group["bytes"] - len("\n".join(shown).encode())
    if text.count("\n") >= most or left > len(shown) + 1:
        first = one_line(group["first"])
        option = f" --stream {stream}" if stream != StreamName.STDOUT else ""
        shown.append(f"... {group['bytes']} bytes: holdfast logs {job} --host {first}{option}")
    return shown
