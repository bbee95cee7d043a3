-- wait synced
UPDATE shop.t_1 SET v = 'ONE' WHERE id = 1;
INSERT INTO shop.log VALUES ('same', 1);
-- on source2
DELETE FROM shop.t_2 WHERE id = 3;
-- dmctl diff case-diff
-- wait synced
-- dmctl diff case-diff --rows 1 --threads 2
