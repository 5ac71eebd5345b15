"""A fixed sequence of steps that reaches every command, every refusal, a transaction and an expiry.

The machine in test_model.py draws its steps, so which commands it reaches differs from run to run. The tour
does not draw.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.primitives.kv._commands import compare, keys
from holdfast.primitives.kv._op import Op, Reply

MINUTES_MS: Final = 2_000_000


def raw(*words: str) -> Op[Reply]:
    return Op(words, lambda reply: reply)


COMMANDS_IN_TURN: Final = (
    "SET text 5", "GET text", "MSET text 5 ž x", "MGET text ž", "INCR text", "INCRBY text 3", "DECR text",
    "DECRBY text 2", "EXISTS text", "TYPE text", "PERSIST text",
    "HSET hash f 1", "HMSET hash g 2 h 3", "HGET hash f", "HMGET hash f g", "HEXISTS hash f", "HLEN hash",
    "HINCRBY hash f 4", "HDEL hash g h", "HGETALL hash",
    "RPUSH list a b c d", "LPUSH list x", "LLEN list", "LRANGE list 0 -1", "LINDEX list 1", "LREM list 1 b",
    "LTRIM list 0 2", "LPOP list", "RPOP list",
    "SADD set a b", "SISMEMBER set a", "SCARD set", "SREM set b", "SMEMBERS set",
    "ZADD zset 1 a 2 b 3 c", "ZSCORE zset a", "ZCARD zset", "ZRANGE zset 0 -1", "ZRANGEBYSCORE zset 1 2",
    "ZREM zset b", "ZPOPMIN zset 1",
    "XADD stream 1-1 f v", "XADD stream 2-1 f w", "XRANGE stream - +", "XREAD COUNT 1 STREAMS stream 0",
    "XLEN stream", "XDEL stream 1-1", "XTRIM stream MAXLEN 0",
)  # fmt: skip
REFUSED: Final = (
    "GET list",  # WrongType
    "HINCRBY hash f x",  # NotAnInteger
    "ZADD zset x m",  # NotAFloat
    "INCRBY text 9223372036854775807",  # Overflow
    "GET",  # BadCommand
)
TOUR: Final[tuple[tuple[Any, ...], ...]] = (
    *(("compare", raw(*line.split())) for line in (*COMMANDS_IN_TURN, *REFUSED)),
    ("compare", compare.compare_and_set("text", None, "y")),
    ("scan", None, 3),
    ("let_end", (keys.expire("text", MINUTES_MS // 1000), "text", MINUTES_MS)),
    ("let_end", (keys.pexpire("hash", 2 * MINUTES_MS), "hash", 2 * MINUTES_MS)),
    ("look_at_ttl", "text"),
    ("transact", ["text"], None, [raw("GET", "text"), raw("LLEN", "list")]),
    ("transact", ["text"], raw("SET", "text", "7"), [raw("GET", "text")]),  # WatchFailed
    ("pass_time", 3 * MINUTES_MS // 2000),
    ("compare", raw("DEL", "hash", "list")),
    ("keys_end_at_the_same_time",),
)
"""Methods of `Twins` and their arguments."""
