CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT AUTO_INCREMENT PRIMARY KEY, amount INT, note VARCHAR(20), KEY by_amount (amount));
INSERT INTO shop.orders (amount, note) VALUES (1, 'one'), (2, 'two'), (3, 'three');
CREATE TABLE shop._customers_old (id INT PRIMARY KEY);
INSERT INTO shop._customers_old VALUES (1);
