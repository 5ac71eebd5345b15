"""The durable order store on files: a log, snapshots, and a view in a RedisKV."""
