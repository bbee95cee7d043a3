-- wait synced
ALTER TABLE shop.customers ADD COLUMN city VARCHAR(30) AFTER name, ADD COLUMN land VARCHAR(30) CHARACTER SET utf8mb4,
  ADD COLUMN code CHAR(8) COLLATE utf8mb4_0900_ai_ci NOT NULL DEFAULT 'x', ADD UNIQUE KEY by_name_and_code (name, code, mail);
INSERT INTO shop.customers (mail, name, city, land) VALUES ('a  ', 'Ä', 'Köln', 'DE'), ('b', 'B', 'Köln ', 'de');
UPDATE shop.words SET word = CONCAT(word, ' ') WHERE word = 'x ';
INSERT INTO shop.words VALUES ('x ', 'four');
USE shop;
CREATE TABLE plain (k VARCHAR(20) PRIMARY KEY, v TEXT);
CREATE TABLE named (k VARCHAR(20) PRIMARY KEY, up VARCHAR(20) AS (UPPER(k COLLATE utf8mb4_0900_ai_ci))) DEFAULT CHARSET = utf8mb4;
CREATE TABLE turned (k VARCHAR(20) PRIMARY KEY) CHARSET utf8mb4 COLLATE utf8mb4_bin;
INSERT INTO plain VALUES ('p', 'x'), ('p ', 'y');
INSERT INTO named (k) VALUES ('n'), ('n ');
INSERT INTO turned VALUES ('t');
ALTER TABLE turned CONVERT TO CHARACTER SET utf8mb4;
INSERT INTO turned VALUES ('t ');
ALTER DATABASE shop CHARACTER SET latin1;
ALTER DATABASE shop CHARACTER SET utf8mb4;
CREATE TABLE later (k VARCHAR(20) PRIMARY KEY);
INSERT INTO later VALUES ('l'), ('l ');
CREATE DATABASE shelf;
CREATE TABLE shelf.things (k VARCHAR(20) PRIMARY KEY);
INSERT INTO shelf.things VALUES ('s'), ('s ');
CREATE TABLE copied LIKE shop.words;
INSERT INTO copied SELECT * FROM shop.words;
DELETE FROM shop.customers WHERE mail = 'a ';
DELETE FROM shop.log WHERE v = 1 LIMIT 1;
