-- What is known of an owner. KEYS: ledger, leases, hosts, gone. ARGV: 3 epoch
local _, now = clock()
if redis.call('HEXISTS', KEYS[4], ARGV[3]) == 1 then return {'gone', meta[2], ''} end
local ends = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[3]) or '')
local host = redis.call('HGET', KEYS[3], ARGV[3]) or ''
if ends and now < ends then return {'alive', meta[2], host} end
return {'lapsed', meta[2], host}
