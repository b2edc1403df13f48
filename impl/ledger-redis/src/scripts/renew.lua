-- Renews a lease that has not run out. KEYS: ledger, leases, gone. ARGV: 3 epoch, 4 milliseconds
local _, now = clock()
local ends = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[3]) or '')
if redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 or not ends or ends <= now then return {'fenced', meta[2]} end
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[4]), ARGV[3])
return {'held', meta[2]}
