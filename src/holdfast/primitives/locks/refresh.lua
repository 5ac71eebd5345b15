-- Extends the lock if it is still held under this token. An expired lock is never acquired again.
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 0
