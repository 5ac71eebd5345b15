"""The fleet on the command line: bounded output, exit codes, hostile text, no terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator

import pytest

from tests.acceptance.cli_support import HOLDFAST, Cli
from tests.integration.gateway.processes import started

ADMIN = "hf_admin_" + "a" * 40
HOSTS = 1000
LINES_MAX = 40
TO = ("--to", "https://chat.example/hook", "--kind", "job.*")
EVIL = "\x1b]0;PWNED\x07\x1b[2J\rerror[ok]: all is well"


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A server with simulated hosts, and a command line on its store."""
    folder = tmp_path_factory.mktemp("fleet")
    url = f"sqlite:///{folder}/holdfast.db"
    options = ("--url", url, "--simulated-hosts", str(HOSTS))
    with started(folder, *options, HOLDFAST_ADMIN_TOKEN=ADMIN) as process:
        cli = Cli(folder, url)
        cli.env["GATEWAY"] = process.url.replace("http://", "holdfast://")
        yield cli


def through_gateway(cli: Cli) -> Cli:
    """The same through the gateway, as another person."""
    other = Cli(cli.folder)
    other.env |= {"HOLDFAST_GATEWAY": cli.env["GATEWAY"], "HOLDFAST_TOKEN": ADMIN}
    return other


def is_plain(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def test_a_job_of_a_thousand_hosts_is_approved_and_followed_to_its_end(cli: Cli) -> None:
    asked = cli.run("run", "echo hello", "--hosts", "*", "--waves", "1,5%,rest",
                    "--external-id", "deploy-42")  # fmt: skip
    assert asked.returncode == 8, asked.stderr
    assert "WAIT_APPROVAL" in asked.stdout
    assert "0 of 1 from role:approver or role:admin; not by cli:" in asked.stdout
    own = cli.run("approve", "deploy-42", "-m", "mine")
    assert (own.returncode, "error[self-approval]" in own.stderr) == (4, True)
    foreseen = cli.run("approve", "deploy-42", "-m", "mine", "--dry-run")
    assert (foreseen.returncode, "error[self-approval]" in foreseen.stderr) == (4, True)
    late = cli.run("wait", "deploy-42", "--timeout", "10ms")
    assert late.returncode == 7
    approved = through_gateway(cli).run("approve", "deploy-42", "-m", "change 118")
    assert approved.returncode == 0, approved.stderr
    watched = cli.run("watch", "deploy-42")
    assert watched.returncode == 0, watched.stderr
    assert "SUCCESS 1000" in watched.stdout
    assert "stdout: 1000 same" in watched.stdout
    assert "hello" in watched.stdout
    assert len(watched.stdout.splitlines()) < LINES_MAX
    assert is_plain(watched.stdout)


def test_the_exit_code_tells_how_a_job_ended(cli: Cli) -> None:
    right = cli.run("run", "true", "--hosts", "sim-[0001-0003]", "--watch", "-o", "json")
    assert right.returncode == 0, right.stderr
    assert json.loads(right.stdout)["counts"]["SUCCESS"] == 3
    wrong = cli.run("run", "false", "--hosts", "sim-[0001-0003]", "--watch", "--progress", "plain")
    assert wrong.returncode == 1, wrong.stderr
    assert "FAILED: 3 of 3 ended; FAILED 3" in wrong.stdout
    assert "\nsim-[0001-0003]: failed, exit 1\n" in wrong.stdout
    foreseen = cli.json("job", "retry", "@last", "--only", "failed", "--dry-run")
    retry = cli.json("job", "retry", "@last", "--only", "failed")
    assert (foreseen["dry_run"], foreseen["hosts"]) == (True, retry["hosts"])
    assert foreseen["job_id"] != retry["job_id"]
    unknown = cli.run("run", "nosuch", "--hosts", "sim-[0001-0002]", "--watch")
    assert "stderr: 2 same\n--- 2: sim-[0001-0002]\n" in unknown.stdout
    assert "stdout" not in unknown.stdout
    assert "stderr: 2 same" in cli.ok("job", "output", "@last")
    assert "nosuch" in cli.run("logs", "@last", "--host", "sim-0001").stderr
    assert cli.run("wait", retry["job_id"]).returncode == 1
    blocked = cli.json("block", "add", "--host", "sim-0009", "-m", "disk swap")
    partial = cli.run("run", "true", "--hosts", "sim-[0008-0009]", "--watch")
    assert partial.returncode == 3, partial.stderr
    assert "not run" in partial.stdout
    assert "disk swap" in partial.stdout
    for verb in ("wait", "watch"):
        assert cli.run(verb, "@last").returncode == 3, "the job, not the newest of its hosts"
    assert "disk swap" in cli.ok("job", "why", "@last", "sim-0009")
    [execution] = cli.json("job", "executions", "@last", "--host", "sim-0009")
    assert "disk swap" in cli.ok("task", "why", execution["id"])
    cli.ok("block", "lift", blocked["id"])
    shell = cli.run("run", "true", "--type", "shell", "--hosts", "sim-0001", "--external-id", "no")
    assert shell.returncode == 8
    assert through_gateway(cli).run("reject", "no", "-m", "never").returncode == 0
    assert cli.run("wait", "no").returncode == 9


def test_progress_without_a_terminal(cli: Cli) -> None:
    done = cli.run("run", "true", "--hosts", "sim-[0010-0012]", "--watch", "--progress", "json")
    assert done.returncode == 0, done.stderr
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    assert objects[-1]["status"] == "SUCCESS"
    assert all("counts" in each for each in objects)
    quiet = cli.run("watch", objects[-1]["id"], "--progress", "quiet")
    assert (quiet.returncode, quiet.stdout) == (0, "")


def test_the_picture_stays_within_the_terminal(cli: Cli) -> None:
    ours, theirs = pty.openpty()
    args = [*HOLDFAST, "run", "false", "--hosts", "sim-[0001-0050]", "--watch"]
    size = {"LINES": "12", "COLUMNS": "60", "TERM": "xterm"}
    process = subprocess.Popen(args, cwd=cli.folder, env=cli.env | size, stdout=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:
            break
        if not read:
            break
        seen += read
    os.close(ours)
    assert process.wait(60) == 1
    text = seen.decode()
    assert "Ctrl-C stops watching" not in text.splitlines()[-1]
    assert "50 of 50" in text


def test_the_output_of_hosts_does_not_steer_the_terminal(cli: Cli) -> None:
    evil = f"echo '{EVIL}'"
    done = cli.run("run", evil, "--hosts", "sim-[0020-0021]", "--watch")
    assert done.returncode == 0, done.stderr
    assert is_plain(done.stdout)
    assert "\nerror[ok]" not in done.stdout
    for command in (("job", "output", "@last"), ("job", "show", "@last"), ("job", "list")):
        assert is_plain(cli.ok(*command)), command
    assert json.loads(cli.ok("job", "output", "@last", "-o", "json"))["groups"][0]["count"] == 2


def test_a_log_of_a_host_is_printed_whole(cli: Cli) -> None:
    assert cli.run("run", "echo one", "--hosts", "sim-0030", "--watch").returncode == 0
    job = cli.json("job", "list", "--limit", "1")[0]["id"]
    assert cli.ok("logs", job, "--host", "sim-0030").strip() == "one"
    assert "1 same" in cli.ok("logs", job)
    assert cli.run("logs", job, "--host", "sim-0031").returncode == 5


def test_a_closed_pipe_is_silent(cli: Cli) -> None:
    shell = f"{' '.join(HOLDFAST)} host list --limit 1000 | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell],
        cwd=cli.folder,
        env=cli.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("NAME")
    assert done.stderr.replace("more: ", "").count("\n") <= 1
    assert "Traceback" not in done.stderr


def test_lists_of_hosts_are_bounded_and_piped(cli: Cli) -> None:
    assert len(cli.ok("host", "list").splitlines()) == 51
    names = cli.ok("host", "list", "sim-[0001-0005]", "-o", "name")
    assert names.split() == [f"sim-000{n}" for n in range(1, 6)]
    foreseen = cli.ok("host", "remove", "-", "--dry-run", input=names)
    assert foreseen.count("would be removed") == 5
    assert cli.json("host", "select", "*")["count"] == HOSTS
    shown = cli.ok("host", "select", "*")
    assert len(shown) < 300


def test_hostile_names_are_refused_or_cleaned(cli: Cli) -> None:
    refused = cli.run("host", "add", "a\x1b[31mb")
    assert refused.returncode == 2
    assert is_plain(refused.stderr)
    shown = cli.run("host", "edit", "sim-0040", "--label", f"note={EVIL}")
    assert is_plain(shown.stdout + shown.stderr)
    assert is_plain(cli.ok("host", "list", "sim-0040"))


def test_doctor_looks_at_the_fleet(cli: Cli) -> None:
    checks = {check["name"]: check for check in cli.json("doctor", "-v")}
    assert checks["agents"]["level"] == "ok"
    assert checks["slots"]["level"] == "ok"
    assert checks["outbox"]["level"] == "ok"


def test_a_webhook_is_named_by_its_name_its_id_or_a_prefix(cli: Cli) -> None:
    """A source and an endpoint may have one name."""
    ids = []
    for name, *to in (("chat", *TO), ("both", *TO), ("both",)):
        made = cli.run("webhook", "add", name, *to, "-o", "json")
        assert made.returncode == 0, made.stderr
        ids.append(json.loads(made.stdout)["id"])
    for ref in ("chat", ids[0], ids[0][:30]):
        shown = cli.run("webhook", "show", ref, "-o", "json")
        assert json.loads(shown.stdout)["id"] == ids[0], shown.stderr
    twice = cli.run("webhook", "show", "both")
    assert (twice.returncode, f"{ids[1]}, {ids[2]}" in twice.stderr) == (2, True), twice.stderr
    edited = cli.run("webhook", "edit", "chat", "--state", "disabled", "-o", "json")
    assert json.loads(edited.stdout)["state"] == "disabled"
    removed = cli.run("webhook", "remove", "chat", ids[1], ids[2])
    assert removed.returncode == 0, removed.stderr
    missing = cli.run("webhook", "show", "chat")
    assert (missing.returncode, "chat" in missing.stderr) == (5, True), missing.stderr


def test_errors_of_a_job_name_its_options(cli: Cli) -> None:
    for face, verb in ((cli, "run"), (cli, "rehearse"), (through_gateway(cli), "run")):
        for option, value in (("--max-fail", "x%"), ("--timeout", "0s"), ("--waves", "1,x")):
            refused = face.run(verb, "true", "--hosts", "*", option, value)
            assert refused.returncode == 2, refused.stderr
            assert option in refused.stderr.splitlines()[0], refused.stderr
