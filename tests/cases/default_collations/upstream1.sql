CREATE DATABASE shop;
CREATE TABLE shop.customers (
  id INT AUTO_INCREMENT PRIMARY KEY, mail VARCHAR(60) NOT NULL, name VARCHAR(40), state ENUM('new', 'old') DEFAULT 'new',
  low VARCHAR(60) AS (LOWER(mail)) STORED, UNIQUE KEY by_mail (mail));
-- no padding: a blank at the end makes another text
INSERT INTO shop.customers (mail, name) VALUES ('a', 'Ä'), ('a ', 'ä'), ('ß', '中文'), ('🎁', NULL), ('', ' ');
CREATE TABLE shop.words (word VARCHAR(30) PRIMARY KEY, note TEXT);
INSERT INTO shop.words VALUES ('x', 'one'), ('x ', 'two'), ('é', 'three');
CREATE TABLE shop.log (v INT, t TEXT);
INSERT INTO shop.log VALUES (1, 'x'), (1, 'x'), (1, 'x '), (NULL, NULL);
