CREATE DATABASE shop_1 CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE shop_1.orders_1 (id BIGINT UNSIGNED PRIMARY KEY, buyer VARCHAR(40) NOT NULL, total DECIMAL(12,2), KEY (buyer));
CREATE TABLE shop_1.orders_2 LIKE shop_1.orders_1;
INSERT INTO shop_1.orders_1 VALUES (1, 'Ada', 10.50), (2, 'Łukasz', NULL);
INSERT INTO shop_1.orders_2 VALUES (51, 'Grace', 3);
CREATE TABLE shop_1.log (at DATETIME(6), what VARCHAR(40));
INSERT INTO shop_1.log VALUES ('2024-02-29 00:00:00', 'one'), ('2024-02-29 00:00:00', 'one');
