"""The files of the Control Center, read from the package.

Promises: a file is found by its exact name only; no path leads out of the folder. The page has no inline
script and no inline style, so that the policy of `HEADERS` can forbid both.
"""

from __future__ import annotations

import gzip
import json
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

DIST: Final = Path(__file__).parent / "dist"
MANIFEST: Final = "manifest.json"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content-Security-Policy of every page: nothing of another origin, nothing inline, no frame around it."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
FOREVER: Final = "public, max-age=31536000, immutable"
"""For files whose name has the hash of their content."""
MEDIA: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' "
    "height='16' rx='4' fill='%23151b1b'/%3E%3Cpath d='M8 2.6v10.4M8 6.2c0 3.2-1.7 5.2-4.6 6.2M8 6.2c0 "
    "3.2 1.7 5.2 4.6 6.2' fill='none' stroke='%23fff' stroke-width='1.5' stroke-linecap='round'/%3E%3C/svg%3E"
)
NOT_BUILT: Final = (
    "<!doctype html><title>Holdfast</title><h1>The Control Center is not built</h1>"
    "<p>This is a checkout of the sources. Run <code>make web</code>, then load this page again.</p>"
)


class File(NamedTuple):
    """What one name answers."""

    content: bytes
    media: str
    compressed: bytes = b""
    """By gzip. Empty for what is not kept so."""


class Files:
    """The built files, in memory: they are about 300 kB."""

    def __init__(self, folder: Path = DIST) -> None:
        self._folder = folder
        self._files: dict[str, File] = {}
        self._manifest: dict[str, str] = {}
        self._read_at = -1.0
        self._refresh()

    @property
    def is_built(self) -> bool:
        return bool(self._manifest)

    def asset(self, name: str) -> File | None:
        """The file of this name. None if there is none."""
        self._refresh()
        return self._files.get(name)

    def page(self, base: str) -> File:
        """The one page of the application, for a gateway that is served below `base`."""
        self._refresh()
        if not self._manifest:
            return File(NOT_BUILT.encode(), "text/html; charset=utf-8")
        place = escape(f"{base}/assets/")
        names = {name: escape(self._manifest[name]) for name in ("app", "style", "worker")}
        text = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover">'
            f'<meta name="holdfast" data-base="{escape(base)}" data-worker="{place}{names["worker"]}">'
            '<meta name="color-scheme" content="light dark"><title>Holdfast</title>'
            f'<link rel="icon" href="{ICON}"><link rel="stylesheet" href="{place}{names["style"]}">'
            f'<script type="module" src="{place}{names["app"]}"></script>'
            '</head><body><div id="app"></div>'
            "<noscript>The Control Center needs JavaScript. The command line does the same: holdfast --help"
            "</noscript>"
            "</body></html>"
        )
        return File(text.encode(), "text/html; charset=utf-8")

    def _refresh(self) -> None:
        """Reads the folder again after a build: the manifest is written last."""
        manifest = self._folder / MANIFEST
        try:
            changed_at = manifest.stat().st_mtime
        except OSError:
            return
        if changed_at == self._read_at:
            return
        self._files = {
            path.name: File(
                data := path.read_bytes(), MEDIA[path.suffix], gzip.compress(data, 9, mtime=0)
            )
            for path in self._folder.iterdir()
            if path.suffix in MEDIA
        }
        read = json.loads(manifest.read_text(encoding="utf-8"))
        self._manifest = {name: value for name, value in read.items() if isinstance(value, str)}
        self._read_at = changed_at
