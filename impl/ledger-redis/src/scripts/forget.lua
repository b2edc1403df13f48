-- Forgets one record, or all but a tombstone.
-- KEYS: ledger, record, changes, unsettled, due
-- ARGV: 3 expected version, 4 key, 5 what all names begin with, 6 '' or until when to keep a tombstone, 7 the tombstone,
--       8 when it expires by itself, in milliseconds, or ''
local _, now = clock()
local old = redis.call('GET', KEYS[2])
if not old then return {'refused', meta[2]} end
local version, generation, _, _, _, place, kept, line = record(old)
if not version then return {'damaged', '0'} end
if version ~= ARGV[3] then return {'refused', meta[2]} end
redis.call('LLEN', KEYS[3])
redis.call('ZCARD', KEYS[5])
local key, name = ARGV[4], ARGV[5] .. 'l:' .. line
local unsettled = redis.call('ZSCORE', KEYS[4], key)
if line ~= '' then redis.call('ZCARD', name) end

local changes = redis.call('INCR', KEYS[1] .. ':changes')
if kept ~= '' then redis.call('ZREM', KEYS[5], kept .. ':' .. key) end
redis.call('DEL', KEYS[3])
if ARGV[6] == '' then
  redis.call('DEL', KEYS[2])
  redis.call('ZREM', KEYS[4], key)
  if line ~= '' then redis.call('ZREM', name, key) end
else
  redis.call('RPUSH', KEYS[3], ARGV[7])
  local until_when = unsettled and '' or ARGV[6]
  redis.call('SET', KEYS[2], string.format('%s %s 1 0 1 %s %s %s', version, generation, place, until_when, line))
  if not unsettled then
    redis.call('ZADD', KEYS[5], 0, ARGV[6] .. ':' .. key)
    if ARGV[8] ~= '' and tonumber(ARGV[8]) > now then
      redis.call('PEXPIREAT', KEYS[2], ARGV[8])
      redis.call('PEXPIREAT', KEYS[3], ARGV[8])
    end
  end
end
redis.call('PUBLISH', ARGV[5] .. 'c:' .. key, '')
return {'forgotten', tostring(changes)}
