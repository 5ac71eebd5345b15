"""`holdfast dev`: a server of one process with a living sample, to look at and to try."""
