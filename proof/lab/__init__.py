"""What tests, benchmarks, chaos and endurance share: servers, proxies, processes, subjects, reports.

- `folders`: scratch folders on tmpfs or on a real disk, swept of what killed runs left;
- `servers`: real PostgreSQL, Redis and Valkey; `databases`: statements on sessions without Holdfast;
- `proxy`: TCP proxies that fail on command;
- `processes`: child processes that end with their parent, and what the kernel says about them;
- `subject`, `session`: a queue under test in a separate process, driven over JSON lines; `venvs` makes the
  environments of peers;
- `report`: progress, tables, result files.

`processes` and `subject` run in the environments of peers: they import the standard library only.
"""
