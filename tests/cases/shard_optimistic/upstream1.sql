CREATE DATABASE shop_1 CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE shop_1.orders_1 (id BIGINT UNSIGNED PRIMARY KEY, buyer VARCHAR(40) NOT NULL, total DECIMAL(12,2), KEY (buyer));
CREATE TABLE shop_1.orders_2 LIKE shop_1.orders_1;
CREATE TABLE shop_1.log (at DATETIME(6), what VARCHAR(40));
