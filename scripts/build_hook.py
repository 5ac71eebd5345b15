"""The step of the package's build that makes the Control Center (`scripts/web.py`).

A wheel or a source archive without the pages is an error. An editable install takes them from `make web`.
Pages that were built from these sources, as in a source archive, need no Node.js.
"""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ControlCenter(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        web = self._web()
        is_current = web["STAMP"].exists() and web["STAMP"].read_text() == web["fingerprint"]()
        return [] if is_current or shutil.which("node") else ["pip"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del build_data
        if version == "editable":
            return
        web = self._web()
        web["build"]()
        if not (web["DIST"] / "manifest.json").exists():
            raise RuntimeError("the Control Center was not built: run scripts/web.py")

    def _web(self) -> dict[str, Any]:
        return runpy.run_path(str(Path(self.root) / "scripts" / "web.py"))
