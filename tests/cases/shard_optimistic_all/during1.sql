-- wait synced
UPDATE shop_1.orders_1 SET buyer = 'Ada L.' WHERE id = 1;
ALTER TABLE shop_1.orders_1 MODIFY buyer VARCHAR(60) NOT NULL, ADD COLUMN note VARCHAR(20);
INSERT INTO shop_1.orders_1 VALUES (3, 'is as the other source is', 3, 'yes');
ALTER TABLE shop_1.orders_1 ADD COLUMN state VARCHAR(10) NOT NULL DEFAULT 'new' AFTER buyer, ADD KEY by_state (state);
UPDATE shop_1.orders_1 SET state = 'sent' WHERE id = 2;
ALTER TABLE shop_1.log ADD COLUMN who VARCHAR(10);
INSERT INTO shop_1.log VALUES ('2024-02-29 00:00:00', 'one', 'me');
INSERT INTO shop_1.orders_2 VALUES (52, 'has not altered yet', 3);
-- on source2
ALTER TABLE shop_2.orders_1 DROP COLUMN total;
UPDATE shop_2.orders_1 SET note = 'no', id = 104 WHERE id = 102;
ALTER TABLE shop_2.orders_1 ADD COLUMN state VARCHAR(10) NOT NULL DEFAULT 'new' AFTER buyer, ADD KEY by_state (state);
DELETE FROM shop_2.log WHERE what = 'two';
ALTER TABLE shop_2.log ADD COLUMN who VARCHAR(10);
-- kill host
-- on source1
ALTER TABLE shop_1.orders_1 DROP COLUMN total;
DELETE FROM shop_1.orders_1 WHERE id = 1;
ALTER TABLE shop_1.orders_2 MODIFY buyer VARCHAR(60) NOT NULL, ADD COLUMN note VARCHAR(20);
UPDATE shop_1.orders_2 SET total = total + 1, note = 'late';
ALTER TABLE shop_1.orders_2 ADD COLUMN state VARCHAR(10) NOT NULL DEFAULT 'new' AFTER buyer, ADD KEY by_state (state);
-- on source2
INSERT INTO shop_2.orders_1 VALUES (105, 'the last one', 'new', NULL);
-- on source1
ALTER TABLE shop_1.orders_2 DROP COLUMN total;
-- wait synced
