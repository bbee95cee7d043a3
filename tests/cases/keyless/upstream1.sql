CREATE DATABASE shop;
CREATE TABLE shop.visits (at DATETIME(6), page VARCHAR(100), seconds FLOAT, data JSON, raw VARBINARY(8));
INSERT INTO shop.visits VALUES
  ('2024-02-29 12:00:00', '/', 0.1, '{"a": 1}', 0x00ff),
  ('2024-02-29 12:00:00', '/', 0.1, '{"a": 1}', 0x00ff),
  (NULL, NULL, NULL, NULL, NULL),
  (NULL, NULL, NULL, NULL, NULL),
  ('2024-02-29 12:00:00', '/', 16777218, '[1, 2.5, "ä"]', '');
CREATE TABLE shop.nullable_key (u INT UNIQUE, t TEXT);
INSERT INTO shop.nullable_key VALUES (1, 'one'), (NULL, 'none'), (NULL, 'none');
