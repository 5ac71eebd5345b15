"""Kill -9 at every write boundary: every acknowledged order exists, no key acts twice.

    HOLDFAST_LONG=1 pytest tests/integration/test_orders_crash.py        # every boundary in every way

The campaign is in `orders_campaign.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.orders.errors import StateLocked
from holdfast.orders.logstore.durable import DurableOrderStore
from holdfast.primitives.kv import RedisKV

ROOT = Path(__file__).parents[2]
IS_LONG = "HOLDFAST_LONG" in os.environ


@pytest.mark.timeout(3600 if IS_LONG else 120)
@pytest.mark.parametrize("view", ["memory", "redis"])
def test_nothing_is_lost_or_done_twice_after_any_death(
    view: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    command = [sys.executable, "-m", "tests.integration.orders_campaign", "--folder", str(tmp_path)]
    if view == "redis":
        command += ["--redis", request.getfixturevalue("redis_url")]
    if IS_LONG:
        command += ["--long", "--rounds", "200"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "nothing lost, nothing twice" in done.stdout


def test_a_directory_belongs_to_one_process_until_it_dies(tmp_path: Path) -> None:
    code = (
        "import sys; from holdfast.orders.logstore.durable import DurableOrderStore; "
        "from holdfast.primitives.kv import RedisKV; "
        "store = DurableOrderStore(RedisKV(), sys.argv[1]); print('open', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StateLocked, match=f"process {other.pid}"):
            DurableOrderStore(RedisKV(), tmp_path)
        other.kill()
        other.wait()
        DurableOrderStore(RedisKV(), tmp_path).close()
