-- wait synced
DELETE FROM shop.orders WHERE id = 1;
DELETE FROM shop.order_history WHERE id = 1;
UPDATE shop.order_history SET v = 3 WHERE id = 2;
INSERT INTO shop.customers VALUES (1);
ALTER TABLE shop.customers ADD COLUMN name TEXT;
DROP TABLE shop.order_dropped;
CREATE TABLE shop.other (id INT PRIMARY KEY);
CREATE TABLE shop.order_new (id INT PRIMARY KEY);
INSERT INTO shop.order_new VALUES (5);
