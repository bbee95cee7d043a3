-- wait synced
UPDATE shop.t SET v = 'later' WHERE id = 2;
