CREATE DATABASE shop_1;
CREATE TABLE shop_1.orders_1 (id BIGINT UNSIGNED PRIMARY KEY, buyer VARCHAR(40) NOT NULL, total DECIMAL(12,2), KEY (buyer));
INSERT INTO shop_1.orders_1 VALUES (1, 'Ada', 10.50), (2, 'Łukasz', NULL);
CREATE TABLE shop_1.log (at DATETIME(6), what VARCHAR(40));
INSERT INTO shop_1.log VALUES ('2024-02-29 00:00:00', 'one'), ('2024-02-29 00:00:00', 'one');
