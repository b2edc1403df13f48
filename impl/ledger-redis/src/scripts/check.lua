-- Begins every script. KEYS[1] is the ledger's incarnation, ARGV[1] the one that it must be; ARGV[2] how many changes the ledger is
-- known to have. All that can fail is read before the first write: a script that has begun to write is never undone.
local meta = redis.call('MGET', KEYS[1], KEYS[1] .. ':changes')
local wrong = nil
if meta[1] ~= ARGV[1] then
  wrong = {'replaced', '0'}
elseif not tonumber(meta[2]) then
  wrong = {'damaged', '0'}
elseif tonumber(meta[2]) < tonumber(ARGV[2]) then
  wrong = {'older', meta[2]}
end
if wrong then
  -- What a replica has says nothing of what the primary has. This changes nothing, but fails there.
  redis.call('PERSIST', KEYS[1])
  return wrong
end
local function clock()
  -- Before Redis 5, a script with a clock may write only if its effects are replicated instead of itself.
  if redis.replicate_commands then redis.replicate_commands() end
  local time = redis.call('TIME')
  return tonumber(time[1]), tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
-- What is kept of a record besides its changes: version, generation, '1' if it is a tombstone, where the changes of its operation
-- begin in the list, how many at the beginning of the list are no history, place, until when it is kept if it is settled, line.
-- One text, not a hash: that is read and written several times as fast.
local function record(text)
  return string.match(text, '^(%d+) (%d+) (%d) (%d+) (%d) (%d+) (%d*) (%x*)$')
end
