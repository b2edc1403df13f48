-- Looks for the ledger; begins one if there is none and ARGV[1] names its incarnation.
local meta = redis.call('MGET', KEYS[1], KEYS[1] .. ':format', KEYS[1] .. ':changes')
if meta[1] then return {meta[1], meta[2] or '', meta[3] or '0'} end
if ARGV[1] == '' then return {'', '', '0'} end
redis.call('MSET', KEYS[1], ARGV[1], KEYS[1] .. ':format', ARGV[2], KEYS[1] .. ':changes', '0')
return {ARGV[1], ARGV[2], '0'}
