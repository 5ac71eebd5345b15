"""A program whose handlers run in processes: each process imports its main module."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.engine import boot

PROGRAM = """
import asyncio, os
from pathlib import Path
from holdfast import TaskQueue
from holdfast.errors import TaskFailed

queue = TaskQueue("sqlite:///shop.db")

def note(name):
    with Path(name).open("a") as file:
        file.write(f"{os.getpid()}\\n")

@queue.task
async def mail() -> None:
    note("mails")

@queue.task(isolation="process", max_attempts=1)
def render() -> int:
    return os.getpid()

async def main():
    %s
"""
WHOLE = """async with queue:
        sent = await mail.enqueue()
        await sent.result(30)
        task = await render.enqueue()
        try:
            print("rendered elsewhere:", await task.result(60) != os.getpid())
        except TaskFailed as error:
            print("failed:", error)
"""
ENTRANCES = {
    "open": "await queue.open()",
    "start": "await queue.start()",
    "enqueue": "await mail.enqueue()",
    "look": "await queue.get_stats()",
}


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "shop.py").write_text(program)
    return subprocess.run(
        [sys.executable, "shop.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_a_program_without_the_guard_does_not_run_again_in_a_handlers_process(
    tmp_path: Path,
) -> None:
    ran = run(tmp_path, PROGRAM % WHOLE + "\nasyncio.run(main())\n")
    assert len((tmp_path / "mails").read_text().split()) == 1, "the program's effects happened once"
    assert "failed:" in ran.stdout, ran.stdout + ran.stderr
    assert boot.GUARD in ran.stdout, "the task's failure says why"
    assert "BadConfig: the main module has no guard" in ran.stderr
    assert ran.returncode == 0


def test_a_program_with_the_guard_runs_its_handlers_in_processes(tmp_path: Path) -> None:
    ran = run(tmp_path, PROGRAM % WHOLE + f"\n{boot.GUARD}\n    asyncio.run(main())\n")
    assert ran.stdout == "rendered elsewhere: True\n", ran.stderr
    assert len((tmp_path / "mails").read_text().split()) == 1


@pytest.mark.parametrize("entrance", ENTRANCES.values(), ids=ENTRANCES)
def test_nothing_opens_the_store_while_the_main_module_is_imported(
    tmp_path: Path, entrance: str
) -> None:
    """Also when the program goes on after the error: the import ends, and the handler runs."""
    second_run = f"""
if __name__ == "__main__":
    asyncio.run(main())
else:
    from holdfast.errors import BadConfig
    async def again():
        try:
            {entrance}
        except BadConfig:
            note("refused")
        else:
            note("opened")
    asyncio.run(again())
"""
    ran = run(tmp_path, PROGRAM % WHOLE + second_run)
    assert ran.stdout == "rendered elsewhere: True\n", ran.stderr
    assert (tmp_path / "refused").exists()
    assert not (tmp_path / "opened").exists()
    assert len((tmp_path / "mails").read_text().split()) == 1


def test_a_main_module_that_cannot_be_imported_again_is_named_as_the_cause(tmp_path: Path) -> None:
    ending = (
        f"\n{boot.GUARD}\n    asyncio.run(main())\nelse:\n    raise RuntimeError('only once')\n"
    )
    ran = run(tmp_path, PROGRAM % WHOLE + ending)
    assert "exit code 1 while it imported the program's main module" in ran.stdout
    assert "only once" in ran.stderr
