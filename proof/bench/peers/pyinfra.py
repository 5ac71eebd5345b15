"""pyinfra: its local connector, once for each target. It replaces parts of the standard library, so the jobs
run in a process apart, which measures them itself."""

import json
import subprocess
import sys

from proof.lab.subject import Subject, main

PARALLEL = 64


class PyinfraTargets(Subject):
    def op_targets(self, n, rounds):
        command = [sys.executable, __file__, "run", str(n), str(rounds)]
        times = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return {"seconds": min(times[1:]), "rate": n / min(times[1:])}


def run(n, rounds):
    sys.path.pop(0)  # this folder, whose modules have the names of their packages
    from gevent import monkey

    monkey.patch_all()
    import time

    from pyinfra.api import Config, Inventory, State
    from pyinfra.api.connect import connect_all
    from pyinfra.api.operation import add_op
    from pyinfra.api.operations import run_ops
    from pyinfra.connectors.local import LocalConnector
    from pyinfra.operations import server

    LocalConnector.make_names_data = staticmethod(
        lambda name=None: iter([(f"@local/{name}", {}, ["@local"])])
    )
    times = []
    for _ in range(rounds + 1):
        state = State(Inventory(([f"@local/{i}" for i in range(n)], {})), Config(PARALLEL=PARALLEL))
        connect_all(state)
        began = time.perf_counter()
        add_op(state, server.shell, commands=["true"])
        run_ops(state)
        times.append(time.perf_counter() - began)
        assert len(state.inventory) == n
        assert not state.failed_hosts
    sys.stdout.write(json.dumps(times))


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main(PyinfraTargets)
