"""The memory backend: the commands of Redis in this process, with an injected clock."""
