-- wait synced
INSERT INTO shop_1.orders_1 VALUES (3, 'before the alter', 3);
ALTER TABLE shop_1.orders_1 ADD COLUMN state VARCHAR(10) NOT NULL DEFAULT 'new' AFTER buyer, ADD KEY by_state (state);
INSERT INTO shop_1.orders_1 VALUES (4, 'after the alter', 'paid', 4);
-- on source2
INSERT INTO shop_2.orders_2 VALUES (103, 'has not altered yet', 3);
-- wait synced
UPDATE shop_2.orders_2 SET total = 99 WHERE id = 101;
ALTER TABLE shop_2.orders_2 ADD COLUMN state VARCHAR(10) NOT NULL DEFAULT 'new' AFTER buyer, ADD KEY by_state (state);
UPDATE shop_2.orders_2 SET state = 'sent', id = 104 WHERE id = 102;
DELETE FROM shop_2.log WHERE what = 'one';
-- on source1
INSERT INTO shop_1.log VALUES (NULL, 'three');
