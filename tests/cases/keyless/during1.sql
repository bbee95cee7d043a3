-- wait synced
DELETE FROM shop.visits WHERE seconds < 1 LIMIT 1;
UPDATE shop.visits SET page = '/cart' WHERE page IS NULL LIMIT 1;
INSERT INTO shop.visits SELECT * FROM shop.visits;
-- wait synced
-- kill host
INSERT INTO shop.visits SELECT * FROM shop.visits;
DELETE FROM shop.visits WHERE page = '/cart' LIMIT 1;
UPDATE shop.nullable_key SET t = 'changed' WHERE u IS NULL LIMIT 1;
DELETE FROM shop.nullable_key WHERE u = 1;
-- wait synced
-- kill daemon
INSERT INTO shop.visits SELECT * FROM shop.visits;
