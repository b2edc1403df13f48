-- Compare-and-set of one record.
-- KEYS: ledger, record, changes, unsettled, due
-- ARGV: 3 expected version or '', 4 version, 5 generation, 6 owner of its attempt, 7 once settled: until when to keep it, else '',
--       8 line that it wants or '', 9 the change, 10 key, 11 what all names begin with
local old = redis.call('GET', KEYS[2])
local version, generation, tombstone, from, skip, place, kept, before = '', '', '0', '0', '0', '0', '', ''
if old then
  version, generation, tombstone, from, skip, place, kept, before = record(old)
  if not version then return {'damaged', '0'} end
end
if version ~= ARGV[3] then return {'refused', meta[2]} end
local length = redis.call('LLEN', KEYS[3])
redis.call('ZCARD', KEYS[4])
redis.call('ZCARD', KEYS[5])
local begins = not old or generation ~= ARGV[5]
local settled, key, lines = ARGV[7] ~= '', ARGV[10], ARGV[11] .. 'l:'
local line = ARGV[8]
if line == '' and not begins then line = before end
if before ~= '' then redis.call('ZCARD', lines .. before) end
if line ~= '' then redis.call('ZCARD', lines .. line) end

if begins then place = line ~= '' and redis.call('INCR', KEYS[1] .. ':places') or '0' end
local changes = redis.call('INCR', KEYS[1] .. ':changes')
if tombstone == '1' then
  -- It comes to life, and must not expire any more. Of the record that is seen to below.
  redis.call('PERSIST', KEYS[3])
  if begins then
    redis.call('DEL', KEYS[3])
    length, skip = 0, '0'
  end
end
if begins then from = length end
local text = string.format('%s %s 0 %s %s %.0f %s %s', ARGV[4], ARGV[5], from, skip, place, ARGV[7], line)
redis.call('SET', KEYS[2], text)
redis.call('RPUSH', KEYS[3], ARGV[9])
if settled then redis.call('ZREM', KEYS[4], key) else redis.call('ZADD', KEYS[4], ARGV[6], key) end
if kept ~= '' then redis.call('ZREM', KEYS[5], kept .. ':' .. key) end
if settled then redis.call('ZADD', KEYS[5], 0, ARGV[7] .. ':' .. key) end
if before ~= '' and (settled or before ~= line) then redis.call('ZREM', lines .. before, key) end
if line ~= '' and not settled then redis.call('ZADD', lines .. line, place, key) end
redis.call('PUBLISH', ARGV[11] .. 'c:' .. key, ARGV[4])
return {'stored', tostring(changes)}
