CREATE DATABASE shop;
CREATE TABLE shop.t (id INT PRIMARY KEY, v VARCHAR(20));
INSERT INTO shop.t VALUES (1, 'first'), (2, 'second');
