-- Reads records. KEYS: ledger. ARGV: 3 what all names begin with, 4 'all' for all changes that are kept, else for those of the
-- operation that the key has now; 5 … the keys.
local found = {}
for i = 5, #ARGV do
  local text = redis.call('GET', ARGV[3] .. 'r:' .. ARGV[i])
  if text then
    local version, _, tombstone, from, skip, place = record(text)
    if not version then return {'damaged', '0'} end
    if ARGV[4] == 'all' then from = skip end
    found[#found + 1] = {place, tombstone, redis.call('LRANGE', ARGV[3] .. 'h:' .. ARGV[i], from, -1)}
  else
    found[#found + 1] = false
  end
end
return {'read', meta[2], found}
