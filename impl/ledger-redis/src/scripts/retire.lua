-- Notes that an owner will never send anything again. KEYS: ledger, leases, hosts, gone. ARGV: 3 epoch
local _, now = clock()
redis.call('HLEN', KEYS[3])
redis.call('HLEN', KEYS[4])
local known = redis.call('ZSCORE', KEYS[2], ARGV[3])
local changes = redis.call('INCR', KEYS[1] .. ':changes')
redis.call('HSET', KEYS[4], ARGV[3], '1')
redis.call('HDEL', KEYS[3], ARGV[3])
if not known then redis.call('ZADD', KEYS[2], now, ARGV[3]) end
return {'retired', tostring(changes)}
