"""Options of simulated hosts: how bad their network and their machines are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.problem import Usage
from holdfast.errors import HoldfastError
from holdfast.fleet.simulated.faults import SimulatedFaults, check_faults, parse_delay, parse_share
from holdfast.fleet.simulated.site import Simulation, check_simulation


@Parameter(name="*")
@dataclass(frozen=True)
class FaultOptions:
    """Faults of simulated hosts. Shares are written 0.1 or 10%."""

    loss: Annotated[str, Parameter(help="The share of messages of simulated hosts lost.")] = "0"
    delay: Annotated[str, Parameter(help="How long messages take: SECONDS or LOW..HIGH.")] = "0"
    duplicate: Annotated[str, Parameter(help="The share of requests that arrive twice.")] = "0"
    reorder: Annotated[str, Parameter(help="The share of requests that later ones overtake.")] = "0"
    crash: Annotated[
        str, Parameter(help="The share of executions in which the agent is killed.")
    ] = "0"
    partition: Annotated[
        str, Parameter(help="The share of time in which a simulated host is cut off.")
    ] = "0"
    broken: Annotated[str, Parameter(help="The share of hosts whose services do not start.")] = "0"
    skew: Annotated[float, Parameter(help="Seconds by which clocks are wrong, at most.")] = 0.0
    seed: Annotated[int, Parameter(help="Draws labels, faults and times.")] = 0

    @property
    def faults(self) -> SimulatedFaults:
        """Usage names the option that is wrong."""
        try:
            return check_faults(
                SimulatedFaults(
                    loss=parse_share("loss", self.loss),
                    delay=parse_delay(self.delay),
                    duplicate=parse_share("duplicate", self.duplicate),
                    reorder=parse_share("reorder", self.reorder),
                    crash=parse_share("crash", self.crash),
                    partition=parse_share("partition", self.partition),
                    broken=parse_share("broken", self.broken),
                    skew=self.skew,
                )
            )
        except HoldfastError as error:
            raise Usage(f"--{error}") from None


NO_FAULT_OPTIONS = FaultOptions()


def simulation_of(hosts: int | None, options: FaultOptions) -> Simulation | None:
    """What a server simulates. None: nothing."""
    faults = options.faults
    if hosts is None:
        if options != NO_FAULT_OPTIONS:
            raise Usage("faults are those of simulated hosts: give --simulated-hosts too")
        return None
    try:
        return check_simulation(Simulation(hosts=hosts, seed=options.seed, faults=faults))
    except HoldfastError as error:
        raise Usage(str(error)) from None
