-- wait synced
INSERT INTO shop.old (t) VALUES ('four'), ('five');
UPDATE shop.old SET t = CONCAT(t, '!') WHERE id < 4;
INSERT INTO shop.keyless VALUES (2, 'y');
DELETE FROM shop.keyless WHERE v = 1 LIMIT 1;
UPDATE shop.cached SET v = v + 10;
USE shop;
CREATE TABLE made (id INT PRIMARY KEY, t CHAR(9)) ENGINE = MyISAM, ROW_FORMAT = FIXED;
INSERT INTO made VALUES (1, 'a'), (2, 'b');
CREATE TABLE safe (id INT PRIMARY KEY);
INSERT INTO safe VALUES (1);
ALTER TABLE safe ENGINE = MyISAM;
INSERT INTO safe VALUES (2);
ALTER TABLE made ADD COLUMN more INT DEFAULT 3, ADD KEY (more);
UPDATE made SET more = id;
