-- wait synced
INSERT INTO shop_1.orders_1 VALUES (1, 'Ada', 10.50), (2, 'Łukasz', NULL);
INSERT INTO shop_1.orders_1 VALUES (3, 'before the alter', 3);
ALTER TABLE shop_1.orders_1 ADD COLUMN state VARCHAR(10) NOT NULL DEFAULT 'new' AFTER buyer, ADD KEY by_state (state);
INSERT INTO shop_1.orders_1 VALUES (4, 'after the alter', 'paid', 4);
ALTER TABLE shop_1.log ADD COLUMN who VARCHAR(10);
INSERT INTO shop_1.log VALUES ('2024-02-29 00:00:00', 'one', 'me');
INSERT INTO shop_1.orders_2 VALUES (51, 'has not altered yet', 3);
-- on source2
INSERT INTO shop_2.orders_1 VALUES (101, 'Ada', 10.50), (102, '美咲', -1);
INSERT INTO shop_2.orders_1 VALUES (103, 'has not altered yet', 3);
UPDATE shop_2.orders_1 SET total = 99 WHERE id = 101;
INSERT INTO shop_2.log VALUES ('2024-02-29 00:00:00', 'two');
ALTER TABLE shop_2.orders_1 ADD COLUMN state VARCHAR(10) NOT NULL DEFAULT 'new' AFTER buyer, ADD KEY by_state (state);
UPDATE shop_2.orders_1 SET state = 'sent', id = 104 WHERE id = 102;
ALTER TABLE shop_2.log ADD COLUMN who VARCHAR(10);
-- on source1
ALTER TABLE shop_1.orders_1 DROP COLUMN total;
UPDATE shop_1.orders_1 SET state = 'back' WHERE id = 3;
ALTER TABLE shop_1.orders_2 ADD COLUMN state VARCHAR(10) NOT NULL DEFAULT 'new' AFTER buyer, ADD KEY by_state (state);
ALTER TABLE shop_1.orders_2 DROP COLUMN total;
INSERT INTO shop_1.orders_2 VALUES (52, 'has altered twice', 'new');
-- kill host
-- on source2
ALTER TABLE shop_2.orders_1 DROP COLUMN total;
-- wait synced
