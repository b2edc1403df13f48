-- Takes a tombstone that has expired by itself off the list of what is due. KEYS: ledger, record, due. ARGV: 3 its place there.
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('ZREM', KEYS[3], ARGV[3]) end
return {'tidied', meta[2]}
