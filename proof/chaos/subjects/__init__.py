"""One queue a file: how it enqueues, works and tells what has ended."""
