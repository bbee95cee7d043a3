-- wait synced
USE shop;
CREATE /* gh-ost */ TABLE _orders_ghc (id BIGINT AUTO_INCREMENT PRIMARY KEY, hint VARCHAR(64) NOT NULL);
CREATE /* gh-ost */ TABLE _orders_gho LIKE orders;
ALTER /* gh-ost */ TABLE _orders_gho ADD COLUMN tax DECIMAL(10,2) NOT NULL DEFAULT 0.19 AFTER amount, DROP KEY by_amount;
INSERT IGNORE INTO _orders_gho (id, amount, note) SELECT id, amount, note FROM orders;
INSERT INTO _orders_ghc (hint) VALUES ('copied');
-- wait synced
-- dmctl pause-task case-online-ddl
-- dmctl resume-task case-online-ddl
-- kill host
ALTER /* gh-ost */ TABLE _orders_gho MODIFY note VARCHAR(190), ADD UNIQUE KEY by_note (note);
INSERT INTO orders (amount, note) VALUES (4, 'four');
REPLACE INTO _orders_gho (id, amount, note) VALUES (4, 4, 'four');
RENAME /* gh-ost */ TABLE orders TO _orders_del, _orders_gho TO orders;
UPDATE orders SET tax = 0.07 WHERE id = 4;
DROP TABLE _orders_ghc, _orders_del;
CREATE TABLE _orders_new (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, amount INT, tax DECIMAL(10,2) NOT NULL DEFAULT 0.19,
  note VARCHAR(190), UNIQUE KEY by_note (note));
ALTER TABLE _orders_new CHANGE COLUMN amount total BIGINT;
INSERT LOW_PRIORITY IGNORE INTO _orders_new (id, total, tax, note) SELECT id, amount, tax, note FROM orders;
RENAME TABLE orders TO _orders_old, _orders_new TO orders;
-- wait paused
-- dmctl binlog replace case-online-ddl "ALTER TABLE shop.orders CHANGE COLUMN amount total BIGINT"
DROP TABLE IF EXISTS _orders_old;
INSERT INTO orders (total, note) VALUES (5000000000, 'five');
