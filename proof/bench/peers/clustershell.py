"""ClusterShell: its own worker that runs a command on this machine for each node."""

import time

from ClusterShell.Task import task_self
from ClusterShell.Worker.Exec import ExecWorker

from proof.lab.subject import Subject, main

FANOUT = 64


class ClusterShellTargets(Subject):
    def op_targets(self, n, rounds):
        task = task_self()
        task.set_info("fanout", FANOUT)
        times = []
        for _ in range(rounds + 1):
            began = time.perf_counter()
            worker = ExecWorker(nodes=f"target-[1-{n}]", handler=None, timeout=60, command="true")
            task.schedule(worker)
            task.resume()
            assert task.max_retcode() == 0
            assert worker.num_timeout() == 0
            times.append(time.perf_counter() - began)
        return {"seconds": min(times[1:]), "rate": n / min(times[1:])}


if __name__ == "__main__":
    main(ClusterShellTargets)
