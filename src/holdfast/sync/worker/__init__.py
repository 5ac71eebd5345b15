"""Worker sync: applies messages of remote workers, gives them tasks and renews their leases."""
