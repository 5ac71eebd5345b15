"""The fleet in the simulator: servers, agents on simulated hosts, a lossy network and operators."""
