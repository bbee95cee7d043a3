-- wait synced
SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO';
SET time_zone = '-03:00';
INSERT INTO shop.numbers SELECT id + 10, t, tu, s, su, m, mu, i, iu, b, d, d2, f, f2, f3, bits, b64, y, bo
  FROM shop.numbers WHERE id < 2;
UPDATE shop.numbers SET f = f / 3, f2 = f2 / 3, d = d / 7, b64 = 1 WHERE id > 9;
UPDATE shop.numbers SET id = 99 WHERE id = 18446744073709551615;
INSERT INTO shop.texts SELECT CONCAT(k, ' again'), c, l, g, a, bi, vb, tt, mt, lt, bl, lb, e, s, j, u, h, o, w, z, tb, mb
  FROM shop.texts;
UPDATE shop.texts SET k = UPPER(k), j = JSON_OBJECT('old', j) WHERE k LIKE 'case%';
DELETE FROM shop.texts WHERE k = 'NULLs';
INSERT INTO shop.times (d, t, t6, dt, dt6, ts, ts6) SELECT d, t, t6, dt, dt6, ts, ts6 FROM shop.times;
UPDATE shop.times SET ts = '2024-03-10 02:30:00', ts6 = '2024-11-03 01:30:00.123456', t6 = '-00:00:01.5' WHERE id > 3;
INSERT INTO shop.shapes SELECT id + 10, g, p, l, s, m FROM shop.shapes;
UPDATE shop.shapes SET p = ST_GeomFromText('POINT(7 7)'), g = p WHERE id = 11;
