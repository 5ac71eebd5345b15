"""Protocol buffers of worker sync, by version."""
