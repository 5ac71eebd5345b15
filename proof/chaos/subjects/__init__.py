"""One queue per file: how it enqueues, works and reports ended jobs."""
