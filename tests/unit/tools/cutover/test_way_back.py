"""The files of the way back: exactly the inverse of the task, or named why there is none."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.cli.verbs.cutover import file_lines
from dm.config import SourceConfig, TaskConfig, read_source, read_task
from dm.config.rules import RouteRule, SchemaExtraction, TableExtraction
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.rules.table_rules import TableRules
from dm.tools.cutover.way_back import (
    TaskEnds,
    WayBackFiles,
    files,
    findings_of_kept,
    name_of,
    obstacles,
    source_of,
    with_opposite,
)
from dm.verbs.declaration import ConfigFile

SECRETS = {"OLD": "s3cret-old", "NEW": "s3cret-new"}
SOURCE = "source-id: old\nfrom: {host: a, port: 3306, user: reader, password: '${OLD}'}\n"
HEAD = """name: shop
task-mode: all
# a person's own remark
target-database: {host: b, port: 3307, user: writer, password: '${NEW}'}
"""
PLAIN = "mysql-instances:\n  - source-id: old\n"


def task(text: str) -> tuple[ConfigFile, TaskConfig]:
    file = ConfigFile("shop.yaml", HEAD + text, ".", SECRETS)
    return file, read(file)


def read(file: ConfigFile) -> TaskConfig:
    source = read_source(SOURCE, environ=SECRETS)
    return read_task(file.text, {"old": source, "shop-target": source}, environ=file.environment)


def names(*texts: str) -> tuple[TableName, ...]:
    return tuple(TableName(*text.split(".")) for text in texts)


def way_back(text: str, ends: TaskEnds) -> WayBackFiles:
    file, config = task(text)
    return files(config, config.subtask("old"), file, ends, Position("", "binlog.000007", 4711))


def routed_back(made: WayBackFiles, tables: tuple[TableName, ...]) -> dict[TableName, TableName]:
    source = read_source(made.source.text, environ=made.source.environment)
    config = read_task(made.task.text, {made.source_id: source}, environ=made.task.environment)
    rules = TableRules(config.subtask(made.source_id))
    return {table: rules.route(table) for table in tables if rules.wanted(table)}


def test_a_schema_of_its_own_goes_back_as_a_whole_and_by_the_accounts_that_there_are() -> None:
    tables = names("shop.orders", "shop.items")
    made = way_back(PLAIN, TaskEnds(tables, (*tables, *names("other.t")), 0))
    assert routed_back(made, names("shop.made_later", "other.t")) == {
        TableName("shop", "made_later"): TableName("shop", "made_later")
    }
    source = read_source(made.source.text, environ=made.source.environment)
    assert (source.source_id, source.endpoint.user, source.endpoint.port) == ("shop-target", "writer", 3307)
    assert source.endpoint.password.get_secret_value() == "s3cret-new"
    config = read_task(made.task.text, {"shop-target": source}, environ=made.task.environment)
    back = config.subtask("shop-target")
    assert (back.task, back.opposite, back.target.user) == ("shop-back", "shop", "reader")
    assert back.target.password.get_secret_value() == "s3cret-old"
    assert back.meta is not None
    assert (back.meta.binlog_name, back.meta.binlog_pos) == ("binlog.000007", 4711)
    assert "s3cret" not in made.source.text + made.task.text + str(made.to_json())


def test_of_a_schema_with_other_tables_only_those_of_the_task_go_back() -> None:
    tables = names("shop.orders")
    made = way_back(PLAIN, TaskEnds(tables, (*tables, *names("shop.own")), 0))
    assert routed_back(made, names("shop.orders", "shop.own", "shop.later")) == dict(zip(tables, tables, strict=True))
    assert "shop has tables that are not the task's" in made.remarks[0]


def kept(text: str, before: TaskEnds, now: TaskEnds) -> list[str]:
    """What is said of a way back that was made before, by the tables that there are now."""
    made, (_, config) = way_back(text, before), task(text)
    source = read_source(made.source.text, environ=made.source.environment)
    back = read_task(made.task.text, {made.source_id: source}, environ=made.task.environment)
    found = findings_of_kept(config.subtask("old"), now, back.subtask(made.source_id), stops=True)
    assert all(each.stops for each in found)
    return [each.says for each in found]


def test_a_table_that_came_after_a_return_is_looked_at_anew() -> None:
    """Whether the way back that is kept leads it home depends on what else there was when that was made."""
    tables, later = names("shop.orders"), names("shop.orders", "shop.later")
    assert kept(PLAIN, TaskEnds(tables, tables), TaskEnds(later, later)) == []
    assert kept(PLAIN, TaskEnds(tables, tables), TaskEnds(tables, tables)) == []
    listed = TaskEnds(tables, (*tables, *names("shop.own")))
    assert kept(PLAIN, listed, TaskEnds(later, (*later, *names("shop.own")))) == [
        "shop.later comes from shop.later, and task shop-back does not take it"
    ]
    assert kept(PLAIN, TaskEnds(tables, tables), TaskEnds(tables, later)) == [
        "shop.later comes from no table of the task, and task shop-back would take it to shop.later"
    ]
    merges = "mysql-instances: [{source-id: old, route-rules: [r]}]\n"
    merges += "routes: {r: {schema-pattern: s*, target-schema: shop}}\n"
    one, two = names("shop.orders"), names("shop.orders", "store.orders")
    (says,) = kept(merges, TaskEnds(one, one), TaskEnds(two, one))
    assert says == "shop.orders comes from shop.orders, store.orders, and task shop-back would take it to shop.orders"


@pytest.mark.parametrize("key", ["ssl-key-bytes: ", "ssl-key-base64: "])
def test_no_secret_of_either_server_is_shown_or_kept_in_a_text(key: str) -> None:
    pem = "-----BEGIN {0}-----\\ncanary-{0}\\n-----END {0}-----\\n"
    security = ", ".join([f'ssl-ca-bytes: "{pem}"'.format("CA"), f'ssl-cert-bytes: "{pem}"'.format("CERT"),
                          f'{key}"{pem}"'.format("KEY")])  # fmt: skip
    source_text = SOURCE.replace("password:", f"security: {{{security}}}, password:")
    head = HEAD.replace("password:", f"security: {{{security}}}, password:").replace("KEY", "OTHER")
    source = read_source(source_text, environ=SECRETS)
    file = ConfigFile("shop.yaml", head + PLAIN, ".", SECRETS)
    config = read_task(file.text, {"old": source}, environ=SECRETS)
    tables = names("shop.orders")
    made = files(config, config.subtask("old"), file, TaskEnds(tables, tables), Position("", "b.000001", 4))
    shown = "\n".join([str(made.to_json()), *file_lines({"files": made.to_json()}), made.source.text, made.task.text])
    assert not re.findall("canary|s3cret|BEGIN", shown)
    back = read_source(made.source.text, environ=made.source.environment)
    assert back.endpoint.security == config.target_database.security
    again = read_task(made.task.text, {made.source_id: back}, environ=made.task.environment)
    assert again.target_database.security == source.endpoint.security
    with pytest.raises(DMError, match="TARGET_"):
        read_source(made.source.text, environ={})


LEAVES_OUT = """mysql-instances: [{source-id: old, block-allow-list: l}]
block-allow-list: {l: {do-dbs: [shop], ignore-tables: [{db-name: shop, tbl-name: audit}]}}
"""
RENAMES = """mysql-instances: [{source-id: old, route-rules: [r]}]
routes: {r: {schema-pattern: shop, table-pattern: orders_v1, target-schema: shop, target-table: orders}}
"""
SPLITS = """mysql-instances: [{source-id: old, route-rules: [a, b]}]
routes:
  a: {schema-pattern: shop, table-pattern: orders, target-schema: one, target-table: orders}
  b: {schema-pattern: shop, table-pattern: items, target-schema: two, target-table: items}
"""


@pytest.mark.parametrize(("text", "ends", "later", "remark"), [
    (LEAVES_OUT, TaskEnds(names("shop.orders"), names("shop.orders"), left_out=names("shop.audit")),
     names("shop.audit", "shop.more"), "shop of the source has tables that shop does not fill, as shop.audit"),
    (RENAMES, TaskEnds(names("shop.orders_v1", "shop.items"), names("shop.orders", "shop.items")),
     names("shop.orders_v1"), "shop.orders_v1 is free, and the source's name of another table"),
    (SPLITS, TaskEnds(names("shop.orders", "shop.items"), names("one.orders", "two.items")),
     names("one.items", "two.orders", "one.more", "two.more"), "has tables that one does not fill"),
])  # fmt: skip
def test_no_table_that_is_made_later_becomes_one_that_the_source_has(
    text: str, ends: TaskEnds, later: tuple[TableName, ...], remark: str
) -> None:
    made = way_back(text, ends)
    assert routed_back(made, later) == {}
    assert set(routed_back(made, tuple(ends.at_target)).values()) == set(ends.at_source)
    assert any(remark in each for each in made.remarks), made.remarks


_NAME = st.text("ab*?[]~.$é-", min_size=1, max_size=4).filter(lambda name: "." not in name)


@given(st.data())
def test_whatever_goes_one_to_one_comes_back_exactly(data: st.DataObject) -> None:
    """Drawn names, of which some go to another schema or table; the target has tables of its own."""
    at_source = data.draw(st.lists(st.builds(TableName, _NAME, _NAME), min_size=1, max_size=5, unique=True))
    targets = data.draw(
        st.lists(st.builds(TableName, _NAME, _NAME), min_size=len(at_source), max_size=len(at_source), unique=True)
    )
    stays = data.draw(st.lists(st.booleans(), min_size=len(at_source), max_size=len(at_source)))
    there = [source if stay else target for source, target, stay in zip(at_source, targets, stays, strict=True)]
    if len(set(there)) < len(there):
        return
    left_out = [
        each for each in data.draw(st.lists(st.builds(TableName, _NAME, _NAME), max_size=2)) if each not in at_source
    ]
    others = [each for each in data.draw(st.lists(st.builds(TableName, _NAME, _NAME), max_size=3)) if each not in there]
    file, config = task(PLAIN + "case-sensitive: true\n")
    routes = tuple(
        RouteRule(
            schema_pattern=_regex(one.schema), table_pattern=_regex(one.table), target_schema=to.schema,
            target_table=to.table,
        )
        for one, to in zip(at_source, there, strict=True)
    )  # fmt: skip
    subtask = config.subtask("old").model_copy(update={"routes": routes})
    ends = TaskEnds(at_source, (*there, *others), left_out=left_out)
    made = files(config, subtask, file, ends, Position("", "b.000001", 4))
    assert routed_back(made, (*there, *others)) == dict(zip(there, at_source, strict=True))
    known = {each.table for each in (*at_source, *there, *left_out)}
    later = {TableName(each.schema, table) for each in there for table in known} - {*there, *others}
    assert not {*at_source, *left_out} & set(routed_back(made, tuple(later)).values())


def _regex(name: str) -> str:
    return f"~^{re.escape(name)}$"


MERGE = """mysql-instances: [{source-id: old, route-rules: [m]}]
routes: {m: {schema-pattern: shop, table-pattern: 't_*', target-schema: shop, target-table: t%s}}
"""
FILTER = """mysql-instances: [{source-id: old, filter-rules: [f]}]
filters: {f: {schema-pattern: shop, events: [truncate table], action: Ignore}}
"""
ROWS = """mysql-instances: [{source-id: old, expression-filters: [e]}]
expression-filter: {e: {schema: shop, table: t_1, insert-value-expr: id > 5}}
"""
TWO_MERGES = """mysql-instances: [{source-id: old, route-rules: [m, n]}]
routes:
  m: {schema-pattern: shop, table-pattern: t_1, target-schema: shop, target-table: t%s}
  n: {schema-pattern: shop, table-pattern: t_2, target-schema: shop, target-table: t, extract-table: {table-regexp: \
    't_(.*)', target-column: shard}}
"""
OTHER = ", extract-schema: {schema-regexp: '(.*)', target-column: origin}"
ALIKE = ", extract-table: {table-regexp: '(t)_', target-column: shard}"
EXTRACT = ", extract-table: {table-regexp: 't_(.*)', target-column: shard}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MERGE % "", "shop.t merges shop.t_1, shop.t_2"),
        (MERGE % ALIKE, "shop.t merges shop.t_1, shop.t_2: rows of shop.t_1 and shop.t_2 have the same parts of names"),
        (TWO_MERGES % "", "shop.t merges shop.t_1, shop.t_2: no row says which table it came from"),
        (TWO_MERGES % OTHER, "shop.t merges shop.t_1, shop.t_2: their rows have parts of names in different columns"),
        (MERGE % EXTRACT + "shard-mode: pessimistic\n", "`shard-mode: pessimistic` merges tables"),
        (FILTER, "`filters` leave out events"),
        (ROWS, "`expression-filter` leaves out rows"),
        (PLAIN + "  - source-id: shop-target\n", "the task has 2 sources"),
        (PLAIN + "shard-mode: optimistic\n", "`shard-mode: optimistic` merges tables"),
    ],
)
def test_what_has_no_way_back_is_named_with_a_way_out(text: str, says: str) -> None:
    file, config = task(text)
    ends = TaskEnds(names("shop.t_1", "shop.t_2"), names("shop.t"), 0)
    found = obstacles(config, config.subtask("old"), ends)
    assert [each.says for each in found if says in each.says]
    assert all("--no-way-back" in each.mend for each in found)
    with pytest.raises(DMError, match="has no way back"):
        files(config, config.subtask("old"), file, ends, Position("", "b.000001", 4))


_PART = st.text("ab_Ω'`~ ", min_size=1, max_size=4)


@given(st.lists(st.tuples(_PART, _PART), min_size=1, max_size=5, unique=True), st.booleans(), st.booleans())
def test_rows_that_hold_parts_of_names_go_back_to_the_tables_of_these_names(
    drawn: list[tuple[str, str]], by_schema: bool, plain: bool
) -> None:
    """Each table's rows have what the task extracts; the new route leads them back, or the task has no way back."""
    at_source = tuple(TableName(f"s{schema}", f"t_{table}") for schema, table in drawn)
    rule = RouteRule(
        name="m", schema_pattern="~^s.*$", table_pattern="~^t_.*$", target_schema="all", target_table="t",
        extract_table=TableExtraction(table_regexp="^t_(.*)$", target_column="Shard"),
        extract_schema=SchemaExtraction(schema_regexp="^s(.*)$", target_column="origin") if by_schema else None,
    )  # fmt: skip
    others = names("other.x") if plain else ()
    file, config = task(PLAIN + "case-sensitive: true\n")
    subtask = config.subtask("old").model_copy(update={"routes": (rule,)})
    ends = TaskEnds((*at_source, *others), (*names("all.t", "all.own"), *others))
    told = [tuple(value.rstrip(" ") for value in (table, schema if by_schema else "")) for schema, table in drawn]
    if len(set(told)) < len(told):
        assert "the same parts of names" in obstacles(config, subtask, ends)[0].says
        return
    assert not obstacles(config, subtask, ends)
    made = files(config, subtask, file, ends, Position("", "b.000001", 4))
    source = read_source(made.source.text, environ=made.source.environment)
    read_back = read_task(made.task.text, {made.source_id: source}, environ=made.task.environment)
    rules, forward = TableRules(read_back.subtask(made.source_id)), TableRules(subtask)
    merged = TableName("all", "t")
    scattering = rules.scattered(merged)
    assert scattering is not None
    for table in at_source:
        values = {each.column.lower(): each.value for each in forward.extracted(table)}
        assert scattering.tables[tuple(values[column] for column in scattering.columns)] == table
    assert len(scattering.tables) == len(at_source)
    assert [table for table in ends.at_target if rules.wanted(table)] == [merged, *others]
    with pytest.raises(DMError, match=r"each row of all\.t to the table that its columns name"):
        rules.route(merged)
    assert findings_of_kept(subtask, ends, read_back.subtask(made.source_id), stops=True) == []
    later = replace(ends, at_source=(*ends.at_source, *names("s.t_later")))
    (found,) = findings_of_kept(subtask, later, read_back.subtask(made.source_id), stops=True)
    assert "s.t_later" in found.says


def test_a_target_without_a_binlog_is_named() -> None:
    _, config = task(PLAIN)
    without = "TiDB has no binlog: no task can follow the target", "cut over with --no-way-back"
    (found,) = obstacles(
        config, config.subtask("old"), TaskEnds(names("shop.t"), names("shop.t"), without_binlog=without)
    )
    assert (found.says, found.mend, found.stops) == (*without, True)


@pytest.mark.parametrize("text", [
    PLAIN,
    "mysql-instances: [{source-id: old, block-allow-list: l}]\nblock-allow-list: {l: {do-dbs: [shop]}}\n",
    "mysql-instances:\n- block-allow-list: l\n  source-id: 'old'  # the only one\nblock-allow-list: {l: {}}\n",
    "mysql-instances: [\n    {block-allow-list: l,\n  source-id: old}]\nblock-allow-list: {l: {}}\n",
])  # fmt: skip
def test_the_opposite_is_written_into_the_file_and_nothing_else_changes(text: str) -> None:
    file, config = task(text)
    named = with_opposite(file, config, "shop-back", read)
    assert read(named).subtask("old").opposite == "shop-back"
    as_before = read(named).model_copy(update={"mysql_instances": config.mysql_instances})
    assert as_before.to_wire() == config.to_wire()
    assert "# a person's own remark" in named.text
    assert with_opposite(named, read(named), "shop-back", read) is named


def test_where_the_opposite_can_not_be_written_the_reason_is_told() -> None:
    file, config = task(PLAIN)

    def refused(changed: ConfigFile) -> TaskConfig:
        raise DMError("usage", problem="it is too long", hint="")

    for reading, why in ((refused, "it is too long"), (lambda changed: config, "they come from elsewhere")):
        with pytest.raises(DMError, match=why):
            with_opposite(file, config, "shop-back", reading)


def test_names_stay_within_their_limits() -> None:
    source: SourceConfig = read_source(SOURCE, environ=SECRETS)
    config = read_task((HEAD + PLAIN).replace("name: shop", f"name: {'n' * 38}"), {"old": source}, environ=SECRETS)
    subtask = config.subtask("old")
    assert (len(name_of(subtask)), len(source_of(subtask))) == (38, 32)
    assert name_of(subtask.model_copy(update={"opposite": "mine"})) == "mine"
