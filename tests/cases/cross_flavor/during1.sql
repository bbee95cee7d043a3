-- wait synced
UPDATE shop.goods SET details = '{"new": [null, true, "x"]}', weight = weight / 3, volume = volume / 7 WHERE id = 1;
INSERT INTO shop.goods (id, sku, details) VALUES (7, 'seven', '[]'), (8, 'eight', 'null');
UPDATE shop.goods SET id = 70, sku = 'moved' WHERE id = 7;
ALTER TABLE shop.goods ADD COLUMN shelf SMALLINT UNSIGNED NOT NULL DEFAULT 4 AFTER sku, ADD INDEX by_shelf (shelf, made);
UPDATE shop.goods SET shelf = 65535 WHERE id = 8;
DELETE FROM shop.log WHERE v = 1 LIMIT 1;
INSERT INTO shop.log VALUES (2, 1e-10, 'ä');
