CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE shop.goods (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, sku VARCHAR(40) COLLATE utf8mb4_bin NOT NULL, price DECIMAL(12,4),
  weight FLOAT, volume DOUBLE, state ENUM('new', 'sold') NOT NULL DEFAULT 'new', flags SET('a', 'b'), made YEAR,
  at DATETIME(6), span TIME(3), changed TIMESTAMP(3) NULL, note TEXT, raw VARBINARY(20), bits BIT(9), details JSON,
  UNIQUE KEY by_sku (sku), KEY by_note (note(10))) ENGINE=InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_general_ci;
INSERT INTO shop.goods VALUES
  (1, 'ä ''quoted'' \\', 12.3456, 0.1, 1e300, 'sold', 'a,b', 2024, '2024-02-29 23:59:59.999999', '-12:30:00.125',
   '2024-06-30 12:00:00.001', '中文 🎁', 0x00FF27, b'100000001', '{"bb": [1, 2.5], "a": "ä"}'),
  (7, 'big', NULL, NULL, NULL, 'new', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (9223372036854775807, 'Big', 0, -16777218, -0.1, 'new', 'b', 1901, '1000-01-01', '838:59:59', NULL, '', '', b'0', '[]');
CREATE TABLE shop.log (v INT, f FLOAT, t TEXT) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_general_ci;
INSERT INTO shop.log VALUES (1, 16777218, 'x'), (1, 16777218, 'x'), (NULL, NULL, NULL);
CREATE TABLE shop.old (k VARCHAR(20) COLLATE utf8mb4_unicode_ci, n INT, v TEXT, PRIMARY KEY (k, n)) ENGINE=MyISAM DEFAULT CHARSET = utf8mb4;
INSERT INTO shop.old VALUES ('a', 1, 'one'), ('B', 2, 'two'), ('ß ', 3, NULL);
