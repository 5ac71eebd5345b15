"""The Control Center of a gateway: page, files, login, logout, and which requests a session counts for."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from holdfast.core.token import TokenKind
from holdfast.gateway.auth.cookies import CODE_SECONDS, cookie_name
from holdfast.gateway.rest.app import make_app
from holdfast.gateway.rest.pages import Pages
from holdfast.web.files import NOT_BUILT, Files
from tests.integration.gateway.support import ADMIN, Site, open_site, problem

OWN = {"Sec-Fetch-Site": "same-origin"}
HOST = "127.0.0.1:8787"
COOKIE = cookie_name(HOST)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "app-1.js").write_text("console.log(1)" * 50)
    (tmp_path / "app-1.css").write_text("a{}")
    (tmp_path / "worker-1.js").write_text("1")
    names = (
        '{"app": "app-1.js", "style": "app-1.css", "worker": "worker-1.js", "sizes": {"script": 1}}'
    )
    (tmp_path / "manifest.json").write_text(names)
    return Files(tmp_path)


@pytest.fixture
async def page(files: Files) -> AsyncIterator[Site]:
    async with open_site("sqlite://") as site:
        app = make_app(site.gateway, extend=(Pages(files).extend,))
        transport = httpx2.ASGITransport(app=app, client=("127.0.0.1", 5_000))
        async with httpx2.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            yield Site(site.gateway, client)


def code_of(site: Site) -> str:
    return site.gateway.logins.open(site.services.clock.monotonic())


async def log_in(site: Site, token: str = ADMIN) -> httpx2.Response:
    return await site.client.post("/login", json={"token": token}, headers=OWN)


async def ask_code(site: Site, token: str) -> httpx2.Response:
    return await site.client.post("/login/code", headers={"Authorization": f"Bearer {token}"})


async def who(site: Site, **headers: str) -> httpx2.Response:
    return await site.client.get("/api/v1/whoami", headers=headers or OWN)


async def test_the_page_has_nothing_inline_and_forbids_it(page: Site) -> None:
    response = await page.client.get("/tasks/some-id")
    assert response.status_code == 200
    assert "<style" not in response.text
    assert re.search(r"<script(?![^>]* src=)", response.text) is None
    assert re.search(r"\son[a-z]+=", response.text) is None
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    for part in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
    ):
        assert part in policy
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_files_have_the_hash_in_their_name_and_stay(page: Site) -> None:
    response = await page.client.get("/assets/app-1.js")
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["content-type"].startswith("text/javascript")
    assert response.headers["content-encoding"] == "gzip"
    assert response.text.startswith("console.log")
    plain = await page.client.get("/assets/app-1.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == response.text
    for name in ("manifest.json", "..%2Fmanifest.json", "%2e%2e%2ffiles.py", "no.js"):
        assert (await page.client.get(f"/assets/{name}")).status_code == 404


async def test_a_path_that_is_no_screen_is_a_problem(page: Site) -> None:
    assert problem(await page.client.get("/nothing/here")) == (404, "not-found")
    html = {"Accept": "text/html,*/*;q=0.8"}
    assert problem(await page.client.get("/api/v1/nothing", headers=html)) == (
        401,
        "unauthenticated",
    )
    assert problem(await page.client.get("/groups/web", headers=html)) == (401, "unauthenticated")
    assert problem(await page.client.post("/nothing", headers=html)) == (404, "not-found")


async def test_a_browser_gets_the_page_for_a_mistyped_path(page: Site) -> None:
    found = await page.client.get("/taskz/1", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (found.status_code, found.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert 'id="app"' in found.text


@pytest.mark.parametrize("path", ["/hosts", "/jobs", "/jobs/some", "/blocks", "/groups"])
async def test_paths_of_the_api_stay_paths_of_the_api(page: Site, path: str) -> None:
    """The fleet is served without a prefix too: no screen may take its paths."""
    assert problem(await page.client.get(path)) == (401, "unauthenticated")


async def test_a_checkout_without_a_build_says_what_to_run(tmp_path: Path) -> None:
    assert Files(tmp_path / "none").page("").content.decode() == NOT_BUILT


async def test_the_page_knows_the_path_of_its_proxy(files: Files) -> None:
    text = files.page("/holdfast").content.decode()
    assert 'src="/holdfast/assets/app-1.js"' in text
    assert 'data-base="/holdfast"' in text


async def test_a_login_code_counts_once(page: Site) -> None:
    code = code_of(page)
    response = await page.client.get("/login", params={"code": code})
    assert (response.status_code, response.headers["location"]) == (303, "/")
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert cookie.startswith(f"{COOKIE}=s.hf_user_")
    assert (await who(page)).json()["roles"] == ["admin"]
    again = await page.client.get("/login", params={"code": code})
    assert again.headers["location"] == "/login?refused=unauthenticated"
    assert "set-cookie" not in again.headers


async def test_a_login_code_ends_and_is_for_this_machine(page: Site) -> None:
    now = page.services.clock.monotonic()
    old = page.gateway.logins.open(now - CODE_SECONDS - 1)
    assert not page.gateway.logins.take(old, now)
    far = httpx2.ASGITransport(app=page.client._transport.app, client=("10.0.0.7", 1))  # type: ignore[attr-defined]
    async with httpx2.AsyncClient(transport=far, base_url=f"http://{HOST}") as client:
        response = await client.get("/login", params={"code": code_of(page)})
    assert response.headers["location"] == "/login?refused=unauthenticated"


async def test_a_code_for_a_token_opens_a_session_with_its_rights(page: Site) -> None:
    token = await page.token("viewer")
    asked = await ask_code(page, token)
    assert asked.status_code == 201, asked.text
    made = asked.json()
    assert token not in made["path"]
    response = await page.client.get(made["path"])
    assert response.headers["location"] == "/"
    assert (await who(page)).json()["roles"] == ["viewer"]
    again = await page.client.get(made["path"])
    assert again.headers["location"] == "/login?refused=unauthenticated"


async def test_a_code_needs_the_token_of_a_person_on_this_machine(page: Site) -> None:
    join = await page.token("join", kind=TokenKind.JOIN)
    for token, code in (("hf_user_no", "unauthenticated"), (join, "forbidden")):
        assert problem(await ask_code(page, token))[1] == code
    far = httpx2.ASGITransport(app=page.client._transport.app, client=("10.0.0.7", 1))  # type: ignore[attr-defined]
    async with httpx2.AsyncClient(transport=far, base_url=f"http://{HOST}") as client:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        assert problem(await client.post("/login/code", headers=headers)) == (403, "forbidden")


async def test_a_session_of_the_administrator_is_a_token_that_a_logout_revokes(page: Site) -> None:
    assert (await log_in(page)).status_code == 204
    session = (await who(page)).json()
    assert session["name"] == "user:admin"
    listed = (await page.ask("GET", "/tokens")).json()["items"]
    assert [token["id"] for token in listed] == [session["token_id"]]
    assert listed[0]["expires_at"] is not None
    kept = page.client.cookies[COOKIE]
    assert (await page.client.post("/logout", headers=OWN)).status_code == 204
    assert COOKIE not in page.client.cookies
    page.client.cookies.set(COOKIE, kept, domain="127.0.0.1")
    assert (await who(page)).status_code == 401
    operations = [row["reason"] for row in (await page.ask("GET", "/audit")).json()["items"]]
    assert operations == ["logout from the Control Center", "login to the Control Center"]


async def test_a_session_has_the_rights_of_its_token_and_ends_with_it(page: Site) -> None:
    viewer = await page.token("viewer")
    assert (await log_in(page, viewer)).status_code == 204
    assert (await who(page)).json()["roles"] == ["viewer"]
    task = await page.task()
    body = {"type": "ABORT", "reason": "not mine"}
    path = f"/api/v1/tasks/{task['id']}/interventions"
    assert problem(await page.client.post(path, json=body, headers=OWN)) == (403, "forbidden")
    tokens = (await page.ask("GET", "/tokens")).json()["items"]
    await page.ask("DELETE", f"/tokens/{tokens[0]['id']}")
    assert (await who(page)).status_code == 401


async def test_a_wrong_token_and_one_of_a_node_open_no_session(page: Site) -> None:
    assert problem(await log_in(page, "hf_user_" + "x" * 43)) == (401, "unauthenticated")
    join = (await page.ask("POST", "/join-tokens", {})).json()["token"]
    assert problem(await log_in(page, join)) == (403, "forbidden")
    assert (await page.client.get("/api/v1/tasks", headers=OWN)).status_code == 401


@pytest.mark.parametrize(
    ("method", "headers", "counts"),
    [
        ("GET", {"Sec-Fetch-Site": "same-origin"}, True),
        ("GET", {"Sec-Fetch-Site": "cross-site"}, False),
        ("GET", {"Sec-Fetch-Site": "same-site"}, False),
        ("GET", {"Sec-Fetch-Site": "none"}, False),
        ("GET", {}, True),
        ("POST", {}, False),
        ("POST", {"Origin": f"http://{HOST}"}, True),
        ("POST", {"Origin": "http://127.0.0.1:9999"}, False),
        ("POST", {"Origin": "null", "Sec-Fetch-Site": "same-origin"}, False),
        ("POST", {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}, False),
        ("POST", {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "cross-site"}, False),
    ],
)
async def test_a_session_counts_for_own_pages_only(
    page: Site, method: str, headers: dict[str, str], counts: bool
) -> None:
    await log_in(page)
    path = "/api/v1/whoami" if method == "GET" else "/api/v1/ws-tickets"
    response = await page.client.request(method, path, headers=headers)
    assert (response.status_code < 300) is counts, response.text


async def test_another_site_neither_logs_in_nor_out(page: Site) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    body = {"token": ADMIN}
    assert problem(await page.client.post("/login", json=body, headers=foreign)) == (
        403,
        "forbidden",
    )
    await log_in(page)
    assert problem(await page.client.post("/logout", headers=foreign)) == (403, "forbidden")
    assert (await who(page)).status_code == 200


async def test_a_header_goes_before_the_session(page: Site) -> None:
    await log_in(page)
    viewer = await page.token("viewer")
    response = await page.client.get(
        "/api/v1/whoami", headers={**OWN, "Authorization": f"Bearer {viewer}"}
    )
    assert response.json()["roles"] == ["viewer"]


async def test_the_cookie_of_another_port_is_another_session(page: Site) -> None:
    await log_in(page)
    value = page.client.cookies[COOKIE]
    headers = {**OWN, "Host": "127.0.0.1:9999", "Cookie": f"{COOKIE}={value}"}
    assert (await page.client.get("/api/v1/whoami", headers=headers)).status_code == 401


@pytest.mark.parametrize("value", ["", "x", "s.", "t.", "s." + "x" * 5_000, '"', "s.\x7f"])
async def test_a_broken_cookie_is_no_session(page: Site, value: str) -> None:
    headers = {**OWN, "Cookie": f"{COOKIE}={value}"}
    assert (await page.client.get("/api/v1/whoami", headers=headers)).status_code == 401


@pytest.mark.parametrize(
    "path", ["/jobs", "/jobs/job_1", "/hosts", "/hosts/web-1", "/groups", "/blocks"]
)
async def test_a_browser_gets_the_screen_of_a_path_of_the_api(page: Site, path: str) -> None:
    browser = await page.client.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert (browser.status_code, browser.headers["location"]) == (303, f"/fleet{path}")
    assert (await page.client.get(path)).status_code == 401
