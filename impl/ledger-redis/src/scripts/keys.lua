-- All keys, at one time. KEYS: ledger, unsettled, due
return {'keys', meta[2], redis.call('ZRANGE', KEYS[2], 0, -1), redis.call('ZRANGE', KEYS[3], 0, -1)}
