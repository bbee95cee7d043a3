CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE shop.t_1 (id INT PRIMARY KEY, v VARCHAR(20), d DOUBLE, at TIMESTAMP(3) NULL, b BLOB, j JSON);
INSERT INTO shop.t_1 VALUES (1, 'one ', 0.1, '2024-02-29 12:00:00.5', x'00ff', '{"a": [1, 1.0]}'), (2, NULL, -1e300, NULL, NULL, NULL);
CREATE TABLE shop.log (what VARCHAR(20), n INT);
INSERT INTO shop.log VALUES ('same', 1), ('same', 1), ('of 1', NULL);
