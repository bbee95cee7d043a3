-- wait synced
SET time_zone = '+00:00';
INSERT INTO shop.t VALUES (5, '2024-10-27 01:30:00', '2024-03-31 02:30:00'), (6, '2024-03-31 01:00:00', NULL);
UPDATE shop.t SET moment = '2024-10-27 01:30:00' WHERE id = 2;
UPDATE shop.t SET local_time = '2024-03-31 02:30:00' WHERE id = 6;
DELETE FROM shop.t WHERE id = 4;
