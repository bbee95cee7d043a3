-- What a dump made elsewhere would have brought.
CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE shop.stock (id INT PRIMARY KEY, sku VARCHAR(20) NOT NULL UNIQUE, n INT);
INSERT INTO shop.stock VALUES (1, 'before', 1), (2, 'the mark', 2);
