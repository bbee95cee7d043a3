CREATE DATABASE shop_1;
CREATE TABLE shop_1.t_1 (id INT PRIMARY KEY, v VARCHAR(20), code INT, UNIQUE KEY (code));
INSERT INTO shop_1.t_1 VALUES (1, 'uno', 10), (2, 'dos', 20);
CREATE TABLE shop_1.log_b (what VARCHAR(20));
INSERT INTO shop_1.log_b VALUES ('same');
