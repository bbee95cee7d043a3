CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT PRIMARY KEY, v INT);
CREATE TABLE shop.order_history (id INT PRIMARY KEY, v INT);
CREATE TABLE shop.order_dropped (id INT PRIMARY KEY);
CREATE TABLE shop.customers (id INT PRIMARY KEY);
INSERT INTO shop.orders VALUES (1, 1), (2, 2);
INSERT INTO shop.order_history VALUES (1, 1), (2, 2);
INSERT INTO shop.order_dropped VALUES (1);
