-- The retry budget, in thousandths of a token. KEYS: ledger, budget.
-- ARGV: 3 what the requests bring, 4 how much fits in, 5 '1' if a token is wanted
local full = tonumber(ARGV[4])
local level = tonumber(redis.call('GET', KEYS[2]) or '') or full
level = math.min(level + tonumber(ARGV[3]), full)
local taken = ARGV[5] == '1' and level >= 1000
if taken then level = level - 1000 end
redis.call('SET', KEYS[2], string.format('%.0f', level))
return {taken and 'taken' or 'none', meta[2]}
