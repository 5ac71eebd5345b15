-- KEYS[1]: the key. ARGV[1]: "1" when ARGV[2] is the value that must be there, "0" when none may be.
-- ARGV[3]: the new value. ARGV[4]: milliseconds to live, or "".
local found = redis.call('GET', KEYS[1])
if ARGV[1] == '1' then
    if found ~= ARGV[2] then return 0 end
elseif found then
    return 0
end
if ARGV[4] == '' then
    redis.call('SET', KEYS[1], ARGV[3])
else
    redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
end
return 1
