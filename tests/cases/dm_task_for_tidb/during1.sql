-- wait synced
BEGIN;
UPDATE shop.goods SET sku = CONCAT(sku, '!'), price = price * 2, details = '{"z": 1.50, "aa": {"ccc": 1, "b": 2}}' WHERE id < 8;
DELETE FROM shop.goods WHERE id = 7;
INSERT INTO shop.goods (sku, note, at) VALUES ('x', 'later', '2026-01-01');
COMMIT;
DELETE FROM shop.log WHERE v = 1 LIMIT 1;
INSERT INTO shop.log VALUES (1, 0.1, 'X'), (1, 0.1, 'x ');
UPDATE shop.log SET v = 2 WHERE t = 'X' LIMIT 1;
UPDATE shop.old SET k = UPPER(k) WHERE n = 1;
UPDATE shop.old SET k = 'SS' WHERE n = 3;
-- dmctl pause-task case-tidb
ALTER TABLE shop.goods ADD COLUMN extra INT NOT NULL DEFAULT 7 AFTER sku, ADD INDEX by_extra (extra, made), DROP COLUMN raw,
  MODIFY COLUMN price DECIMAL(14,4);
INSERT INTO shop.goods (sku, extra) VALUES ('y', 1), ('z', 2);
CREATE TABLE shop.fresh (id INT PRIMARY KEY, parent INT, v VARCHAR(20) DEFAULT 'd' COMMENT 'c', KEY (parent)) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
INSERT INTO shop.fresh VALUES (1, NULL, 'a'), (2, 1, NULL);
RENAME TABLE shop.fresh TO shop.renamed;
UPDATE shop.renamed SET parent = 2 WHERE id = 1;
TRUNCATE TABLE shop.log;
INSERT INTO shop.log VALUES (9, 9.5, 'nine');
DROP TABLE shop.old;
-- dmctl resume-task case-tidb
