-- Registers an owner. KEYS: ledger, leases, hosts, gone, unsettled. ARGV: 3 its lease in milliseconds, 4 where it runs
local seconds, now = clock()
-- Never below the seconds since 2020: so that no epoch is handed out twice even if the server has lost some that it gave away.
local last = tonumber(redis.call('GET', KEYS[1] .. ':epoch') or '0')
if not last then return {'damaged', '0'} end
local epoch = math.max(last + 1, seconds - 1577836800)
if epoch > 4294967295 then return {'exhausted', meta[2]} end
redis.call('HLEN', KEYS[3])
redis.call('HLEN', KEYS[4])
-- Owners whose lease has been over for a day, and whom no open operation names, need not be remembered.
local past = {}
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - 86400000, 'LIMIT', 0, 100)) do
  if redis.call('ZCOUNT', KEYS[5], owner, owner) == 0 then past[#past + 1] = owner end
end

local changes = redis.call('INCR', KEYS[1] .. ':changes')
redis.call('SET', KEYS[1] .. ':epoch', string.format('%.0f', epoch))
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[3]), epoch)
redis.call('HSET', KEYS[3], epoch, ARGV[4])
for _, owner in ipairs(past) do
  redis.call('ZREM', KEYS[2], owner)
  redis.call('HDEL', KEYS[3], owner)
  redis.call('HDEL', KEYS[4], owner)
end
return {'registered', tostring(changes), string.format('%.0f', epoch)}
