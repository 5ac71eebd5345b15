"""A whole site under faults: gateways, workers, watchers and offline nodes as real processes."""
