-- Gives the lock a new end, if it is still there under this token: a lock that has ended is never taken again.
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 0
