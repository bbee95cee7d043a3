-- wait synced
UPDATE shop_1.t_1 SET v = 'ONE', code = 11 WHERE id = 1;
UPDATE shop_1.t_1 SET id = 5, code = 10 WHERE id = 2;
DELETE FROM shop_1.`t_o'b``r %` WHERE id = 1;
INSERT INTO shop_1.`t_o'b``r %` VALUES (3, 'drei', 10), (5, 'fuenf', 11);
DELETE FROM shop_1.log_a LIMIT 1;
CREATE TABLE shop_1.t_9 (id INT PRIMARY KEY, v VARCHAR(20), code INT, UNIQUE KEY (code));
INSERT INTO shop_1.t_9 VALUES (1, 'new shard', 10);
ALTER TABLE shop_1.t_1 ADD COLUMN w INT NOT NULL DEFAULT 7 AFTER id;
UPDATE shop_1.t_1 SET w = 8 WHERE id = 5;
-- on source2
DELETE FROM shop_1.t_1 WHERE id = 1;
UPDATE shop_1.t_1 SET id = 1 WHERE id = 2;
-- kill host
ALTER TABLE shop_1.t_1 ADD COLUMN w INT NOT NULL DEFAULT 7 AFTER id;
INSERT INTO shop_1.t_1 VALUES (2, 9, 'tres', 30);
DELETE FROM shop_1.log_b;
INSERT INTO shop_1.log_b VALUES ('other');
-- on source1
UPDATE `shop_é`.t_1 SET v = 'deux', code = NULL;
DELETE FROM shop_1.t_1 WHERE id = 3;
