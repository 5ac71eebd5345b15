"""Nodes that speak `/api/v2/sync`, for tests of its endpoints."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.integration.gateway.support import ADMIN, Site

SYNC = "/api/v2/sync"


class Forge:
    """A plugin that speaks HTTP."""

    def __init__(self, site: Site, name: str, token: str) -> None:
        self.site = site
        self.name = name
        self.token = token

    async def post(self, path: str, **body: Any) -> httpx2.Response:
        return await self.site.client.post(
            SYNC + path, json=body, headers={"Authorization": f"Bearer {self.token}"}
        )

    async def get(self, path: str, **params: Any) -> httpx2.Response:
        return await self.site.client.get(
            SYNC + path, params=params, headers={"Authorization": f"Bearer {self.token}"}
        )

    async def push(self, *items: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        answer = await self.post("/push/proj", tasks=list(items), **fields)
        assert answer.status_code == 200, answer.text
        results: list[dict[str, Any]] = answer.json()["results"]
        return results

    async def one(self, **item: Any) -> dict[str, Any]:
        return (await self.push(item))[0]

    async def create(self, name: str = "task-1", **item: Any) -> None:
        result = await self.one(id=name, expectedVersion=0, **item)
        assert result["success"], result

    async def claim(self, name: str = "task-1", **body: Any) -> dict[str, Any]:
        answer = await self.post(f"/tasks/{name}/claim", lockDuration=300_000, **body)
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown


async def joined(site: Site, name: str, **fields: Any) -> Forge:
    admin = Forge(site, name, ADMIN)
    answer = await admin.post("/nodes/register", nodeId=name, projectId="proj", **fields)
    assert answer.status_code == 200, answer.text
    return Forge(site, name, answer.json()["credential"])


@pytest.fixture
async def a(site: Site) -> Forge:
    return await joined(site, "plugin-a")


@pytest.fixture
async def b(site: Site) -> Forge:
    return await joined(site, "plugin-b")


@pytest.fixture
def admin(site: Site) -> Forge:
    return Forge(site, "", ADMIN)


def refused(answer: httpx2.Response, status: int, name: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    assert (body["success"], body["error"], body["status"]) == (False, name, status)
    assert body["type"].startswith("urn:holdfast:error:")
    return body
