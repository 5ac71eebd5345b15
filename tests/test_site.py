"""The documentation site builds from the pages without a warning, and needs nothing from the network."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.pages import ROOT

HTML = ROOT / "build" / "site" / "html"
OUTSIDE = re.compile(r"""(?:src|href)=["'](https?:)?//[^"']+["']""")


def test_the_site_has_every_page_and_loads_nothing_from_elsewhere() -> None:
    """A broken link or a page that the index does not list is a warning, and a warning is an error."""
    built = subprocess.run(
        [sys.executable, "scripts/site.py"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in ROOT.glob("docs/*/*.md")}
    shown = {path.relative_to(HTML).with_suffix("") for path in HTML.glob("*/*.html")}
    assert len(pages) > 60
    assert pages <= shown
    texts = (HTML / "llms.txt").read_text("utf-8")
    assert all(f"({page.as_posix()}.html)" in texts for page in pages)
    loaded = [
        tag
        for path in HTML.rglob("*.html")
        for tag in re.findall(r"<(?:script|link|img)\b[^>]*>", path.read_text("utf-8"))
        if OUTSIDE.search(tag)
    ]
    assert loaded == []
