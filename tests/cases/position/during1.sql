-- wait synced
DELETE FROM shop.stock WHERE id = 2;
BEGIN;
UPDATE shop.stock SET sku = 'swapped' WHERE id = 3;
UPDATE shop.stock SET sku = 'after' WHERE id = 1;
UPDATE shop.stock SET id = 30 WHERE id = 3;
COMMIT;
CREATE TABLE shop.later (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, t TEXT);
INSERT INTO shop.later (t) VALUES ('ä''"\\'), (NULL), (REPEAT('x', 60000));
-- wait synced
-- dmctl pause-task case-position
INSERT INTO shop.later (t) VALUES ('while paused');
-- dmctl resume-task case-position
