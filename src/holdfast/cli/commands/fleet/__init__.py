"""Commands of the fleet: hosts, groups, blocks, jobs, approvals, webhooks."""
