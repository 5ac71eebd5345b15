"""The AsyncAPI document: committed as it is served, complete, and refusing what is not sent.

Every frame that a client of the feed or a worker receives in the tests is checked against it, see
`tests.async_messages`.

python -m tests.integration.gateway.test_asyncapi      # writes docs/reference/asyncapi.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import __version__
from holdfast.core.event_kinds import TABLE
from holdfast.gateway.rest.asyncapi import document
from tests.async_messages import check
from tests.integration.gateway.support import Site

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "asyncapi.json"


def text() -> str:
    return json.dumps(document(__version__), indent=1, sort_keys=True) + "\n"


def test_the_document_is_committed() -> None:
    assert PAGE.read_text("utf-8") == text(), (
        "run: python -m tests.integration.gateway.test_asyncapi"
    )


async def test_the_document_is_served(memory_site: Site) -> None:
    served = await memory_site.client.get("/asyncapi.json")
    assert served.json() == json.loads(text())


def test_every_reference_is_there() -> None:
    whole = json.loads(text())

    def follow(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(reference := value.get("$ref"), str):
                found: Any = whole
                for part in reference.removeprefix("#/").split("/"):
                    found = found[part]
            for inner in value.values():
                follow(inner)
        elif isinstance(value, list):
            for inner in value:
                follow(inner)

    follow(whole)
    kinds = whole["components"]["schemas"]["feed.EventFrame"]["properties"]["kind"]["examples"]
    assert kinds == [row.kind for row in TABLE if not row.kind.endswith(".")]


@pytest.mark.parametrize(
    ("channel", "frame"),
    [
        ("feed", {"type": "pong", "n": "1", "head": "e:1"}),
        ("feed", {"type": "pong", "n": 1}),
        ("feed", {"type": "pong", "n": 1, "head": "e:1", "more": 1}),
        ("feed", {"type": "task.progress", "id": "a"}),
        ("feed", {"type": "reset", "id": "a", "reason": "new", "position": "", "oldest": ""}),
        ("worker", {"type": "unheard"}),
        ("worker", {"type": "decided"}),
    ],
)
def test_another_frame_does_not_fit(channel: str, frame: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        check(channel, frame)


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
