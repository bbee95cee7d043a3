CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE shop.stock (id INT PRIMARY KEY, sku VARCHAR(20) NOT NULL UNIQUE, n INT);
INSERT INTO shop.stock VALUES (1, 'before', 1), (2, 'the mark', 2);
-- mark
UPDATE shop.stock SET n = 3 WHERE id = 1;
INSERT INTO shop.stock VALUES (3, 'after', 3);
