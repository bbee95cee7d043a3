"""Two tasks that follow one schema, its rows as row events and as SQL: what one is held against is the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from dm.config.rules import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.ident import Ident
from dm.unit import JSON
from tests.live.changes.tables import endpoint_of
from tests.testbed.sync import running_sync, subtask_for

TABLES = (
    "CREATE TABLE {}.keyed (id INT PRIMARY KEY, u VARCHAR(20) UNIQUE, v VARCHAR(20))",
    "CREATE TABLE {}.keyless (id INT, v VARCHAR(20))",
    "CREATE TABLE {}.computed (id INT PRIMARY KEY, v INT, w INT AS (v + 1) STORED, x INT AS (v * 2) VIRTUAL, KEY (x),"
    " CHECK (v < 1000))",
    "CREATE TABLE {}.parts (id INT PRIMARY KEY, v VARCHAR(20)) PARTITION BY HASH (id) PARTITIONS 4",
    "CREATE TABLE {}.hot (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE {}.`q``'\"ä` (`a``'\"ö` INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1)",
)


def write(twins: Twins) -> None:
    """Rows of all these tables, some of them often."""
    numbers = ", ".join(f"({at}, 'x{at}')" for at in range(300))
    name = twins.name
    twins.upstream.execute(
        f"INSERT INTO {name}.keyed (id, v) VALUES {numbers}",
        f"UPDATE {name}.keyed SET u = CONCAT('u', id) WHERE id % 2 = 0",
        f"INSERT INTO {name}.keyless VALUES {numbers}",
        f"INSERT INTO {name}.keyless SELECT * FROM {name}.keyless WHERE id % 3 = 0",
        f"UPDATE {name}.keyless SET v = 'same' WHERE id < 100",
        f"UPDATE {name}.keyless SET id = id + 1 WHERE v = 'same'",
        f"DELETE FROM {name}.keyless WHERE id % 5 = 0",
        f"INSERT INTO {name}.computed (id, v) SELECT id, id FROM {name}.keyed",
        f"UPDATE {name}.computed SET v = v + 1",
        f"INSERT INTO {name}.parts VALUES {numbers}",
        f"UPDATE {name}.parts SET id = id + 1000",
        f"INSERT INTO {name}.hot VALUES (1, 0), (2, 0)",
        *(f"UPDATE {name}.hot SET v = v + 1 WHERE id = {at % 2 + 1}" for at in range(40)),
        f"""INSERT INTO {name}.`q``'"ä` VALUES (1, 'ä'), (2, NULL)""",
        f"""UPDATE {name}.`q``'"ä` SET v = 'ö'""",
        f"DELETE FROM {name}.keyed WHERE id % 7 = 0",
    )


class Twins:
    """Two tasks that follow one schema: into a schema of the same name by events, and into another one by SQL."""

    def __init__(self, upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
        self.upstream, self.target, self.name = upstream, target, name
        self.by_sql = f"{name}_sql"
        target.execute(f"CREATE DATABASE {self.by_sql}")
        route = RouteRule(name="sql", schema_pattern=name, target_schema=self.by_sql)
        self.tasks = {
            "auto": subtask_for(upstream, target, name, task=name),
            "sql": subtask_for(upstream, target, name, task=self.by_sql, routes=(route,), row_format="sql"),
        }

    def close(self) -> None:
        """Remove what the factory of schemas does not know."""
        for name in (self.by_sql, f"meta_{self.name}", f"meta_{self.by_sql}"):
            self.target.execute(f"DROP DATABASE IF EXISTS {name}")

    def check_foreign_keys(self) -> None:
        """Have the target look at foreign keys, for both tasks."""
        for form, task in self.tasks.items():
            session = endpoint_of(self.target, foreign_key_checks="1")
            self.tasks[form] = task.model_copy(update={"target": session, "foreign_key_checks": True})

    def create(self, *definitions: str) -> None:
        """Tables at the source and in both schemas of the target; `{}` is the schema."""
        self.upstream.execute(*(definition.format(self.name) for definition in definitions))
        for schema in (self.name, self.by_sql):
            self.target.execute(*(definition.format(schema) for definition in definitions))

    def begin(self) -> None:
        """Store where both tasks start."""
        for task in self.tasks.values():
            with running_sync(task) as sync:
                sync.wait_synced()

    def follow(self, task: SubtaskConfig) -> Mapping[str, JSON]:
        """Follow to the source's end; gives the status."""
        with running_sync(task) as sync:
            return sync.wait_synced(120)

    def follow_both(self) -> dict[str, tuple[JSON, JSON]]:
        """Follow to the source's end in both forms, which gives equal rows; gives the forms of the one by events."""
        found = forms(self.follow(self.tasks["auto"]))
        assert {form for form, _ in forms(self.follow(self.tasks["sql"])).values()} == {"sql"}
        self.demand_equal()
        return found

    def rows(self, server: ThrowawayServer, schema: str) -> dict[str, list[str]]:
        """The rows of each table, in any order, at a MySQL with the types inside their documents.

        CHECKSUM TABLE would not do. MariaDB sums up equal rows with computed columns to other checksums. MySQL sums up
        the texts of documents, and the hidden columns of functional indexes: that of an array of numbers has an address
        in memory, so that a table that nobody writes has another checksum each time.
        """
        columns = server.query(
            "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS JOIN information_schema.TABLES"
            " USING (TABLE_SCHEMA, TABLE_NAME) WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'"
            " ORDER BY TABLE_NAME, ORDINAL_POSITION",
            (schema,),
        )
        selected = dict[str, list[str]]()
        for table, column, data_type in columns:
            # The driver takes a vector for a text in ASCII; a FLOAT's text has six digits.
            form = {"vector": "HEX({})", "float": "{} * 1e0"}.get(str(data_type), "{}")
            name, forms = Ident(str(column)).sql, selected.setdefault(str(table), [])
            forms.append(form.format(name))
            if data_type == "json":
                source = f"{Ident(schema).sql}.{Ident(str(table)).sql}"
                texts = server.query(f"SELECT DISTINCT {name} FROM {source} WHERE {name} IS NOT NULL")
                forms += types_inside(name, (str(text) for (text,) in texts))
        return {
            table: sorted(
                map(repr, server.query(f"SELECT {', '.join(forms)} FROM {Ident(schema).sql}.{Ident(table).sql}"))
            )
            for table, forms in selected.items()
        }

    def demand_equal(self) -> None:
        """Both targets have the source's rows."""
        source = self.rows(self.upstream, self.name)
        assert self.rows(self.target, self.name) == source
        assert self.rows(self.target, self.by_sql) == source


def types_inside(column: str, documents: Iterable[str]) -> list[str]:
    """SQL of the type of each number, text and moment in a column's documents, which their texts do not show.

    11 is an INTEGER or an UNSIGNED INTEGER, 1.5 a DECIMAL or a DOUBLE, "2024-01-01" a STRING or a DATE.
    """
    paths = {path for document in documents for path in scalars(json.loads(document), "$")}
    return [
        f"JSON_TYPE(JSON_EXTRACT({column}, CAST(0x{path.encode().hex()} AS CHAR CHARACTER SET utf8mb4)))"
        for path in sorted(paths)
    ]


def scalars(document: JSON, path: str) -> Iterator[str]:
    """The paths of all that is neither an object nor an array."""
    match document:
        case dict():
            for name, value in document.items():
                yield from scalars(value, f"{path}.{json.dumps(name, ensure_ascii=False)}")
        case list():
            for at, value in enumerate(document):
                yield from scalars(value, f"{path}[{at}]")
        case _:
            yield path


def forms(status: Mapping[str, JSON]) -> dict[str, tuple[JSON, JSON]]:
    """The form of each table, and the reason."""
    tables = status["tables"]
    assert isinstance(tables, list)
    found = {}
    for entry in tables:
        assert isinstance(entry, dict)
        if "rowFormat" in entry:
            found[str(entry["table"]).partition(".")[2]] = entry["rowFormat"], entry["rowFormatReason"]
    return found
