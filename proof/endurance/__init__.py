"""Long runs: an old reader, memory, the size of finished tasks, pruning."""
