CREATE DATABASE shop;
CREATE TABLE shop.old (id INT AUTO_INCREMENT PRIMARY KEY, t VARCHAR(20), FULLTEXT KEY words (t)) ENGINE = MyISAM;
INSERT INTO shop.old (t) VALUES ('one'), ('two'), ('three');
CREATE TABLE shop.keyless (v INT, t CHAR(5)) ENGINE = MyISAM ROW_FORMAT = FIXED;
INSERT INTO shop.keyless VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
CREATE TABLE shop.cached (k CHAR(20) PRIMARY KEY, v INT, KEY by_v (v)) ENGINE = MEMORY;
INSERT INTO shop.cached VALUES ('a', 1), ('b', 2);
