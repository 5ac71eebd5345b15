"""The rules of the fleet: hosts, blocks, jobs, approvals, rollout, and what agents and the server say."""
