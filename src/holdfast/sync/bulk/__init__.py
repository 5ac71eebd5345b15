"""One change of many tasks, in steps that resume."""
