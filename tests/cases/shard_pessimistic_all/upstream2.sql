CREATE DATABASE shop_2 CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE shop_2.orders_1 (id BIGINT UNSIGNED PRIMARY KEY, buyer VARCHAR(40) NOT NULL, total DECIMAL(12,2), KEY (buyer));
INSERT INTO shop_2.orders_1 VALUES (101, 'Ada', 10.50), (102, '美咲', -1);
CREATE TABLE shop_2.log (at DATETIME(6), what VARCHAR(40));
INSERT INTO shop_2.log VALUES ('2024-02-29 00:00:00', 'one'), ('2024-02-29 00:00:00', 'two');
