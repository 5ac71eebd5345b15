"""A host is enrolled as docs/howto/agent.md says: the token of its command counts for an agent."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from tests import launcher
from tests.integration.gateway.processes import started

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "agent.md").read_text("utf-8")
ADMIN = "hf_admin_" + "p" * 40


def test_a_host_is_enrolled_with_the_token_of_the_page(tmp_path: Path) -> None:
    command = re.findall(r"`holdfast (node join-token [^`]*)`", PAGE)[0]
    with started(tmp_path, HOLDFAST_ADMIN_TOKEN=ADMIN) as server:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "HOLDFAST_GATEWAY": server.url,
            "HOLDFAST_TOKEN": ADMIN,
        }
        made = launcher.run([*shlex.split(command), "-o", "name"], tmp_path, environ, "", 60)
        assert made.returncode == 0, made.stderr
        agent = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "agent", "--state", "state", "--name", "web-1"],
            cwd=tmp_path,
            env=environ | {"HOLDFAST_TOKEN": made.stdout.strip()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert agent.stdout is not None
        line = agent.stdout.readline()
        agent.send_signal(signal.SIGTERM)
        _, said = agent.communicate(timeout=60)
        assert line.startswith("agent of host web-1"), said
        assert server.ask("GET", "/hosts/web-1").json()["driver"] == "agent"
