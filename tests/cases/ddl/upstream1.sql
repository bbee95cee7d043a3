CREATE DATABASE shop;
CREATE TABLE shop.customers (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20) NOT NULL);
INSERT INTO shop.customers (name) VALUES ('Ada'), ('Zoë');
CREATE TABLE shop.old (id INT PRIMARY KEY, v INT);
INSERT INTO shop.old VALUES (1, 1);
