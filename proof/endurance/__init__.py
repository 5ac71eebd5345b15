"""Long runs: an old reader, flat memory, the size of what is kept, pruning."""
