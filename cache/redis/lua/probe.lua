-- Shows that this server can be written to.
-- KEYS: one that nothing else uses
return redis.call('SET', KEYS[1], 1, 'PX', 1000)
