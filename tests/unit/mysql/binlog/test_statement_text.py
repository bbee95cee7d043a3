"""The character set of a statement's text: its client's, or UTF-8 where the server wrote it."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.mysql.binlog.query import Query, QuerySession

LATIN1, GBK, SWE7, UTF8MB4 = 8, 28, 10, 45
FORMS = (
    "CREATE TABLE `{}` (\n  `a` int DEFAULT NULL\n)",
    "CREATE OR REPLACE TABLE `d`.`{}` (\n  `a` int DEFAULT NULL\n)",
    'CREATE TABLE IF NOT EXISTS "a`b" (\n  "{}" int DEFAULT NULL\n)',
    "CREATE TABLE t (\n  {} int DEFAULT NULL\n)",
)


def query(sql: bytes, collation: int = LATIN1, *, temporary: bool = False, inside: bool = False) -> Query:
    session = QuerySession(charset=(collation, collation, UTF8MB4))
    return Query("d", sql, session, 0, 1, 0, 0, temporary, inside)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("temporary", "inside"), [(True, False), (False, True), (True, True)])
def test_what_the_server_wrote_is_utf8(form: str, temporary: bool, inside: bool) -> None:
    text = form.format("é中")
    for collation in (LATIN1, GBK, SWE7, UTF8MB4):
        assert query(text.encode(), collation, temporary=temporary, inside=inside).text == text


@pytest.mark.parametrize("form", FORMS)
def test_the_same_form_of_a_client_is_in_its_own_character_set(form: str) -> None:
    text = form.format("é")
    assert query(text.encode("latin-1")).text == text
    assert query(text.encode("latin-1"), temporary=True).text == text  # it is no UTF-8, so no server wrote it
    text = form.format("中")
    assert query(text.encode("gbk"), GBK).text == text


@pytest.mark.parametrize("form", FORMS)
def test_where_both_are_text_and_nothing_tells_neither_is_taken(form: str) -> None:
    unclear = query(form.format("é").encode())
    assert unclear.readings == (form.format("Ã©"), form.format("é"))
    assert unclear.undecodable is None
    with pytest.raises(DMError) as caught:
        _ = unclear.text
    assert caught.value.name == "statement-charset-unclear"
    assert form.format("é") in caught.value.workaround


@pytest.mark.parametrize("sql", ["ALTER TABLE `é` ADD a INT", "CREATE TABLE `é` (a INT)", "CREATE TABLE `é` LIKE t"])
def test_any_other_statement_is_its_clients_whatever_the_event_has_beside(sql: str) -> None:
    assert query(sql.encode("latin-1"), temporary=True, inside=True).text == sql
    mojibake = sql.replace("é", "Ã©")
    assert query(sql.encode(), temporary=True, inside=True).text == mojibake


def test_swe7_has_national_characters_in_what_is_quoted_and_nowhere_else() -> None:
    sent = "CREATE TABLE `a[``b` (c INT COMMENT 'it''s @[\"]^`{|}~') /* don't [ */ COMMENT \"w[\" -- '[\n/*! DATA '['*/"
    meant = "CREATE TABLE `aÄéb` (c INT COMMENT 'it''s ÉÄ\"ÅÜéäöåü') /* don't [ */ COMMENT \"wÄ\" -- '[\n/*! DATA 'Ä'*/"
    assert query(sent.encode(), SWE7).text == meant


@pytest.mark.parametrize("sql", ["CREATE TABLE t (a INT COMMENT 'a\\\\b')", "CREATE TABLE `é` (a INT)"])
def test_swe7_that_can_be_read_in_two_ways_is_refused(sql: str) -> None:
    with pytest.raises(DMError) as caught:
        _ = query(sql.encode(), SWE7).text
    assert caught.value.name == "statement-undecodable"
