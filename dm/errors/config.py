"""Errors of source and task files, one entry per kind of problem, and of the rules built from them."""

from dm.errors.kind import START_LATER, WITH_NEW_FILE, ErrorKind


def _problem(name: str, code: int, message: str, workaround: str = "") -> ErrorKind:
    return ErrorKind(name, code, "config", "internal", "medium", message, workaround)


KINDS = (
    # The file as a whole.
    ErrorKind(
        "config-invalid", 20900, "config", "internal", "medium",
        "{file}: {count}\n{problems}",
        "correct the file; nothing was changed",
    ),
    _problem("config-unreadable", 20018, "can't read the file: {why}", "check the path and the permissions"),
    _problem("config-too-big", 20901, "the file is larger than {limit} bytes", "is this the right file?"),
    _problem("config-not-text", 20902, "not a text file: {why}", "a YAML file in UTF-8"),
    _problem("config-not-yaml", 20903, "not YAML: {why}"),
    _problem("config-other-file", 20960, "this is a {which} file"),
    _problem("config-expansion", 20904, "aliases or nesting make the file too large: {why}"),
    # Keys.
    _problem("config-unknown-key", 20003, "unknown key `{key}`"),
    _problem("config-duplicate-key", 20905, "key `{key}` stands here twice; the first is in line {first}"),
    _problem("config-missing-key", 20906, "required key `{key}` is missing"),
    _problem("config-refused-key", 20907, "`{key}` is not supported"),
    _problem("config-deprecated-key", 20908, "`{key}` is deprecated"),
    _problem(
        "config-deprecated-keys", 20940, "deprecated keys, accepted without effect or under today's name: {keys}",
        "a file without them",
    ),
    _problem("config-no-effect", 20909, "`{key}` has no effect here: {why}"),
    _problem("config-either-or", 20910, "`{key}` and `{other}` exclude each other"),
    # Values.
    _problem("config-wrong-type", 20911, "a {found} stands here"),
    _problem("config-bad-value", 20912, "value {value} is not possible here"),
    _problem("config-refused-value", 20913, "value {value} is not supported"),
    _problem("config-bad-name", 20914, "{value} can't be a name"),
    _problem("config-environment", 20915, "environment variable {variable} is not set"),
    _problem("config-password-file", 20916, "can't take the password from this file: {why}"),
    _problem("config-tls-file", 20917, "can't read the file: {why}"),
    _problem("config-tls-content", 20941, "this is not the content of a PEM file"),
    _problem(
        "config-masked", 20942, "this is the mask that DM prints in place of a secret",
        "the secret itself; a password also from a variable of the environment or by `password-file`",
    ),
    _problem(
        "config-encrypted", 20010, "can't decrypt this password: {why}",
        "DM's key file as `$DM_HOME/secret-key` (chmod 600), or where `dm-worker --secret-key-path` says",
    ),
    _problem(
        "config-public-key", 20943, "this password is encrypted with the key that all DM before 8.0 share: it hides"
        " nothing", "a password from `dmctl encrypt`, a variable of the environment, or `password-file`",
    ),
    ErrorKind(
        "secret-key-unusable", 20067, "config", "internal", "medium",
        "can't take the key from {file}: {why}",
        "make one with `openssl rand -hex 32`, or take DM's (`secret-key-path` of dm-master); `chmod 600`",
    ),
    _problem("config-plain-pattern", 20918, "`{pattern}` looks like a regular expression, but is taken as it stands"),
    _problem(
        "config-object-storage", 20983, "this address of object storage is not understood: {why}",
        "`s3://bucket/prefix?endpoint=https://host:9000&region=..&access-key=..&secret-access-key=..`",
    ),
    _problem("config-bad-gtid-set", 20920, "not a GTID set: {why}"),
    _problem("config-bad-extra-args", 20921, "{argument} is not possible here"),
    _problem(
        "config-ignored-extra-args", 20945, "{argument} has no effect: it is no option that DM gives to dumpling",
        "options of dumpling such as `--consistency none`",
    ),
    # Source files.
    _problem("config-source-id-empty", 20005, "`source-id` is empty"),
    _problem("config-source-id-too-long", 20006, "`source-id` is longer than 32 characters"),
    _problem("config-backoff", 20043, "`backoff-max` is smaller than `backoff-min`"),
    # Task files.
    _problem("config-checking-item", 20001, "unknown checking item {value}"),
    _problem("config-task-name-empty", 20004, "`name` is empty"),
    _problem("config-online-scheme", 20007, "unknown online DDL scheme {value}"),
    _problem("config-time-zone", 20008, "unknown time zone {value}"),
    _problem("config-meta", 20011, "`meta` does not say where to start"),
    _problem("config-no-instances", 20013, "`mysql-instances` is empty"),
    _problem("config-same-source", 20014, "source {value} stands here twice"),
    _problem("config-dumper-conflict", 20015, "`mydumper-config-name` and `mydumper` exclude each other"),
    _problem("config-loader-conflict", 20016, "`loader-config-name` and `loader` exclude each other"),
    _problem("config-syncer-conflict", 20017, "`syncer-config-name` and `syncer` exclude each other"),
    _problem("config-task-mode", 20020, "unknown task mode {value}"),
    _problem("config-no-target", 20021, "required key `target-database` is missing"),
    _problem("config-route-unknown", 20023, "there is no route {value}"),
    _problem("config-filter-unknown", 20024, "there is no filter {value}"),
    _problem("config-list-unknown", 20026, "there is no block-allow-list {value}"),
    _problem("config-dumper-unknown", 20027, "there is no mydumper configuration {value}"),
    _problem("config-loader-unknown", 20029, "there is no loader configuration {value}"),
    _problem("config-syncer-unknown", 20030, "there is no syncer configuration {value}"),
    _problem("config-source-unknown", 20031, "there is no source {value}"),
    _problem("config-reference-twice", 20032, "{value} is named twice"),
    _problem("config-shard-mode", 20033, "unknown shard mode {value}"),
    _problem("config-event-filter", 20037, "not a usable binlog event filter: {why}"),
    _problem("config-unreferenced", 20038, "{what} {value} is defined but no instance of `mysql-instances` names it"),
    _problem(
        "config-unknown-event", 20944, "there is no event {name}: the rule stands without it",
        "the name of an event (DM leaves such a rule out as a whole, and says so in its log only)",
    ),
    _problem("config-expression-kinds", 20039, "an expression filter holds one kind of expression, not several"),
    _problem("config-expression-unknown", 20040, "there is no expression filter {value}"),
    _problem("config-expression-grammar", 20041, "can't evaluate this expression: {why}"),
    _problem("config-expression-name", 20042, "`{key}` of an expression filter is empty"),
    _problem("config-list", 20044, "not a usable block-allow-list: {why}"),
    _problem("config-route", 20045, "not a usable route: {why}"),
    _problem("config-chunk-size", 20047, "{value} is not a size"),
    _problem("config-online-regex", 20048, "not a usable table rule: {why}"),
    _problem("config-collation", 20052, "unknown way to treat collations: {value}"),
    _problem("config-import-mode", 20053, "import mode {value} is not possible"),
    _problem("config-on-duplicate", 20054, "unknown way to treat duplicates: {value}"),
    _problem("config-validation-mode", 20055, "unknown validation mode {value}"),
    _problem("config-validator-unknown", 20056, "there is no validator configuration {value}"),
    _problem("config-safe-mode-duration", 20061, "`safe-mode-duration: 0s` contradicts `safe-mode: true`"),
    _problem("config-column-mapping", 20064, "column mapping was removed from DM"),
    _problem("config-shard-mode-with", 20946, "`shard-mode` does not go together with `{key}`"),
    _problem(
        "config-merge-order-with", 20990, "`merge-order` does not go together with `{key}`: rows of a shard that waits"
        " for a DDL are applied later than they were committed",
    ),
    _problem("config-strict-optimistic", 20066, "`strict-optimistic-shard-mode` needs `shard-mode: optimistic`"),
    _problem("config-foreign-keys", 20070, "`{key}` is not possible with `foreign_key_checks: 1`"),
    # The rules at work.
    ErrorKind(
        "route-ambiguous", 40080, "dm-worker", "internal", "high",
        "table {table} matches more than one route: {rules}",
        "make the patterns of the routes disjoint, then stop the task and start it with the corrected file",
    ),
    ErrorKind(
        "route-extract-unmatched", 20925, "config", "internal", "high",
        "route {route} can't extract from {table}: `{regexp}` does not match the {part} name {value!r}",
        "let the expression match every name that the route matches (a leading `(?i)` ignores case), or let the "
        "route match fewer: "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "extract-table-missing", 20926, "config", "downstream", "high",
        "the target has no table {target}, which routes with extracted columns from {table} need",
        "create {target_sql} at the target with the source's columns and {columns} (VARCHAR); each key whose "
        "values several source tables share must include them. Then `dmctl resume-task`",
    ),
    ErrorKind(
        "extract-column-unfit", 20927, "config", "downstream", "high",
        "column `{column}` of {target} can't hold what is extracted from {table}: {why}",
        "change the target's table (a VARCHAR column that the source lacks, long enough for the names) and `dmctl "
        "resume-task`; or change the route: "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "extract-column-altered", 20933, "config", "internal", "high",
        "column `{column}` of {target} holds what is extracted from {table}, which is altered in a column of that name:"
        " {statement}",
        "`dmctl binlog skip`, and the target's column stays as it is; rows pause (20927) as long as the source has such"
        " a column: drop it there, or give it another name, and skip that, too; or extract into another column: "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "filter-column-gone", 20934, "config", "internal", "high",
        "column `{column}` of {table}, by which expression filter {rule} leaves rows out, is no more there under its "
        "name: {statement}",
        "from this statement on the filter would leave out nothing, or rows by another column of that name. Write into "
        "the task file what it is to be from here on: the column's new name, another expression, or no filter (put it "
        "back once the table has the column again): "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "extract-renamed", 20928, "config", "internal", "high",
        "{statement} would change the extracted values of rows that are already in {target}: {old} becomes {new}",
        "ignore `rename table` there with a filter rule, and change the rows at the target by hand (UPDATE .. SET "
        "of the extracted columns): "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "table-scattered", 20935, "config", "internal", "high",
        "route {route} sends each row of {table} to the table that its columns name: for such a table this is not "
        "possible",
        "leave the table out; or ask the task in the other direction, for which its rows are in one table",
    ),
    ErrorKind(
        "scatter-column-unfit", 20936, "config", "upstream", "high",
        "column `{column}` of {table} can't name the table of a row: {why}",
        "under `scatter` a route names columns with text that the source's table has: "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "row-names-no-table", 20937, "config", "upstream", "high",
        "a row of {table} names none of the tables under `scatter` of its route: {columns} = {value}",
        "create the table for such rows at the target, and add it under `scatter`: "
        + WITH_NEW_FILE
        + ". If the row is a slip, correct it at the source, and "
        + START_LATER,
        values=("value",),
    ),
    ErrorKind(
        "ddl-scattered", 20938, "config", "internal", "high",
        "rows of {table} go to several tables, and this statement can't be executed for each of them ({why}): "
        "{statement}",
        "`dmctl binlog replace` with the statement as far as it concerns the other columns executes it for each table; "
        "`dmctl binlog skip` leaves the target's tables as they are, or as you have altered them by hand",
    ),
    ErrorKind(
        "expression-inexact", 20924, "config", "internal", "high",
        "expression filter {rule} can't be evaluated with the server's exact result: {why}",
        "where the row image lacks a column: `SET GLOBAL binlog_row_image = FULL` at the source, and the same in"
        " sessions that set their own value, for the rows to come. For this row, and for every other reason: change the"
        " expression (compare columns with constants of their own type), or remove the filter: " + WITH_NEW_FILE,
    ),
    ErrorKind(
        "expression-failed", 20929, "config", "downstream", "high",
        "the target can't evaluate `{expression}` of expression filter {rule}: {why}",
        "change the expression so that the target ({address}) understands it for every row, or remove the filter: "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "event-refused", 20923, "config", "internal", "high",
        "a binlog event filter with `action: Error` ({rule}) matched {event} on {table}",
        "inspect the change; then set the rule's `action` to `Do` or `Ignore`: "
        + WITH_NEW_FILE, of_tables=True,
    ),
)  # fmt: skip
