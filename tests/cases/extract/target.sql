CREATE DATABASE shop;
CREATE TABLE shop.t (
    id INT NOT NULL, v VARCHAR(20), c_table VARCHAR(30) NOT NULL, c_schema VARCHAR(30) CHARACTER SET latin1 NOT NULL,
    c_source VARCHAR(10) NOT NULL, code INT, PRIMARY KEY (id, c_table, c_schema, c_source),
    UNIQUE KEY codes (code, c_source, c_schema, c_table)
);
CREATE TABLE shop.log (what VARCHAR(20), c_source VARBINARY(4));
