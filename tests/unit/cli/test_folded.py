"""Failures and outputs of many hosts, with equal ones once."""

from __future__ import annotations

from typing import Any

from holdfast.cli.commands.fleet.failures import failure_lines
from holdfast.cli.commands.fleet.folded import errors_of, folded_lines, has_text, headline

EXITED = "the command failed: it ended with exit code "


def group(hosts: str, count: int, sample: str) -> dict[str, Any]:
    size = len(sample)
    return {"hosts": hosts, "count": count, "first": hosts, "bytes": size, "sample": sample}


def folded(*groups: dict[str, Any], stream: str = "stdout") -> dict[str, Any]:
    differing = sum(each["count"] for each in groups[1:])
    rest = {"more_groups": 0, "missing": "", "missing_count": 0, "differing": differing}
    return {"stream": stream, "groups": list(groups)} | rest


def end(host: str, code: int | None, reason: str, kind: str = "failed") -> dict[str, Any]:
    return {"host": host, "exit_code": code, "kind": kind, "reason": reason}


def test_equal_failures_are_one_line_and_a_reason_appears_where_it_says_more() -> None:
    why = "there is no program 'x'"
    found = [end(f"web-{n}", 2, f"{EXITED}2") for n in (1, 2, 3)]
    found += [end("db-1", 127, f"{EXITED}127: {why}"), end("db-2", None, "it is gone", "lost")]
    assert failure_lines(found) == [
        "web-[1-3]: failed, exit 2",
        f"db-1: failed, exit 127: {why}",
        "db-2: lost: it is gone",
    ]


def test_nothing_is_printed_for_outputs_that_are_empty() -> None:
    empty = folded(group("web-[1-4]", 4, ""))
    assert (has_text(empty), headline(empty), errors_of(empty)) == (False, "no stdout", None)


def test_standard_error_is_that_of_the_hosts_that_have_written_some() -> None:
    found = folded(group("web-[1-3]", 3, ""), group("web-4", 1, "no\n"), stream="stderr")
    errors = errors_of(found | {"missing": "web-5", "missing_count": 1})
    assert errors is not None
    assert headline(errors) == "stderr: 1 same"
    assert folded_lines(errors, "job_1") == ["--- 1: web-4", "no"]


def test_the_hint_about_a_long_output_is_a_command_that_works() -> None:
    long = group("web-1", 1, "a\n" * 50) | {"bytes": 9_000}
    assert folded_lines(folded(long), "job_1", most=2)[-1] == (
        "... 9000 bytes: holdfast logs job_1 --host web-1"
    )
    assert folded_lines(folded(long, stream="stderr"), "job_1", most=2)[-1].endswith(
        "--host web-1 --stream stderr"
    )
    assert folded_lines(folded(group("web-1", 1, "a"), group("web-2", 1, "")), "j")[-1] == (
        "--- 1: web-2 (empty)"
    )
