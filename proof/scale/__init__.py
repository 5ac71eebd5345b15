"""What a task and a watcher cost, and where one PostgreSQL ends.

- `process`: one process of a measurement: producers, workers, watchers
- `meters`: CPU time, write-ahead log, commits and bytes of a store
- `costs`: the measurements
- `model`: a queueing model in virtual time, of `parts`
- `predict`: the model with the measured costs, and its validation
- `report`: the tables
"""
