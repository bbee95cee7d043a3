"""Errors of the daemon, its API, the unit processes and dmctl."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "precheck-failed", 26005, "task-check", "internal", "medium",
        "the precheck of task {task} failed: {items}",
        "run `dmctl check-task` on the task file: each failed item shows the statement that fixes it; an item that "
        "does not matter to you can be listed in `ignore-checking-items`",
    ),
    ErrorKind(
        "gtid-mode-off", 26007, "task-check", "upstream", "medium",
        "source {source} has `enable-gtid: true`, but the server's gtid_mode is {mode}",
        "turn GTID on at the server (SET @@GLOBAL.gtid_mode = ON, step by step), or set `enable-gtid: false`",
    ),
    ErrorKind(
        "source-flavor", 26900, "config", "upstream", "medium",
        "source {source} says `flavor: {said}`, but the server is {found}",
        "correct `flavor`, or leave it out",
    ),
    ErrorKind(
        "source-relay-impossible", 26901, "task-check", "upstream", "medium",
        "source {source} has `enable-relay: true`, but its binlog can't be pulled: {findings}",
        "{fixes}",
    ),
    ErrorKind(
        "host-died", 40900, "dm-worker", "internal", "medium",
        "the process of {host} ended unexpectedly ({how})",
        "the task continues by itself from the stored progress; the log of the process is {log}",
        retryable=True,
    ),
    ErrorKind(
        "host-unresponsive", 40901, "dm-worker", "internal", "medium",
        "the process of {host} did not stop within {seconds} s and was killed",
        "nothing is lost: the next start continues from the stored progress",
        retryable=True,
    ),
    ErrorKind(
        "source-exists", 46007, "scheduler", "internal", "medium",
        "source {source} already exists",
        "use `dmctl operate-source update`, or stop it first with `dmctl operate-source stop`",
    ),
    ErrorKind(
        "source-unknown", 46008, "scheduler", "internal", "medium",
        "there is no source {source}",
        "`dmctl operate-source show` lists the sources; `dmctl operate-source create <file>` adds a source",
    ),
    ErrorKind(
        "source-changed", 46900, "scheduler", "internal", "medium",
        "source {source} was changed while task {task} was to be started",
        "run the command again: the checks are made with the source as it is now",
    ),
    ErrorKind(
        "source-in-use", 46010, "dm-master", "internal", "medium",
        "task {tasks} uses source {source}",
        "pause the task to update the source, stop the task to remove it",
    ),
    ErrorKind(
        "task-exists", 46014, "scheduler", "internal", "medium",
        "task {task} already exists on source {sources}",
        "see `dmctl query-status {task}`; give the new task another name, or stop the old one with `dmctl "
        "stop-task {task}`",
    ),
    ErrorKind(
        "task-differs", 46015, "scheduler", "internal", "medium",
        "task {task} runs on source {sources}, and the file differs from the running task's: {keys}",
        "a task has one file: give this one another name; or `dmctl stop-task {task}`, and start it with this file on "
        "all of its sources",
    ),
    ErrorKind(
        "task-unknown", 46018, "scheduler", "internal", "medium",
        "there is no task {task}",
        "`dmctl query-status` lists the tasks",
    ),
    ErrorKind(
        "task-not-on-source", 46017, "dm-master", "internal", "medium",
        "task {task} does not run on source {source}",
        "its sources are: {sources}",
    ),
    ErrorKind(
        "stage-mismatch", 40908, "dm-worker", "internal", "medium",
        "{what} can't be {verb}: its stage is {stage}",
        "see `dmctl query-status`; only a {wanted} one can be {verb}",
    ),
    ErrorKind(
        "relay-needed", 40909, "dm-worker", "internal", "medium",
        "task {tasks} needs the relay of source {source} until its load has ended",
        "wait for the load (`dmctl query-status {tasks}`), or stop the task first",
    ),
    ErrorKind(
        "relay-holds-more", 40940, "dm-worker", "internal", "medium",
        "task {task} is at {place}, and source {source} itself has no binlog before {first} any more: only the relay's"
        " files have what comes next",
        "let the task apply it first (`dmctl query-status {task}` shows where it is), then stop the relay",
    ),
    ErrorKind(
        "daemon-running", 40910, "dm-worker", "internal", "medium",
        "another dm-worker (pid {pid}) uses {home}",
        "use that daemon, or give this daemon its own directory with DM_HOME",
    ),
    ErrorKind(
        "daemon-is-service", 40942, "dm-worker", "internal", "medium",
        "the dm-worker of {home} is a service of this machine and does not run now: dmctl starts none of its own there",
        "systemctl start dm-worker; `systemctl status dm-worker` says why it does not run. If it is to be a service no "
        "more, delete {home}/service",
    ),
    ErrorKind(
        "listen-refused", 40911, "config", "internal", "medium",
        "dm-worker does not listen on {address}: without TLS only loopback addresses are allowed",
        "give a certificate with --ssl-cert and --ssl-key; or listen on 127.0.0.1:<port> and reach it from other "
        "machines through an ssh tunnel. The address is that of an interface, as 10.0.0.7:8261 or 0.0.0.0:8261",
    ),
    ErrorKind(
        "port-unusable", 40920, "dm-worker", "internal", "medium",
        "dm-worker can't listen on {address}: {problem}",
        "give another port with --listen or --metrics-addr, or end the process that listens at this port (`ss -ltnp` "
        "names it)",
    ),
    ErrorKind(
        "registry-unusable", 40912, "dm-worker", "internal", "high",
        "the registry {path} can't be used",
        "see the cause. On a full disk, free space: a verb that failed has changed nothing, and dm-worker tries "
        "again by itself. Without the file dm-worker starts empty; the tasks' progress is still at their targets",
    ),
    ErrorKind(
        "worker-not-installed", 40941, "config", "internal", "medium",
        "no dm-worker can run here: Python packages that it needs are not installed ({missing})",
        "name the dm-worker of another host with --addr or DM_ADDR; or install them: "
        "pip install 'dm-replicator[worker]'",
    ),
    ErrorKind(
        "unit-unavailable", 40913, "dm-worker", "internal", "high",
        "the unit {unit} can't be loaded",
        "see the cause; reinstall dm with all its dependencies",
    ),
    ErrorKind(
        "task-busy", 40914, "dm-worker", "internal", "medium",
        "task {task} did not reach the stage {stage} within {seconds} s",
        "it continues to try; see `dmctl query-status {task}`",
    ),
    ErrorKind(
        "unit-not-there", 40916, "dm-worker", "internal", "medium",
        "the unit that should answer {question} is just starting or ending",
        "try again in a moment",
        retryable=True,
    ),
    ErrorKind(
        "token-missing", 40918, "dm-worker", "internal", "medium",
        "a request through this port needs a token: that in {path}, or a token of `dmctl token create`",
        "send `Authorization: Bearer <token>`; dmctl takes the token from the file that --token-file or DM_TOKEN_FILE "
        "names, else from $DM_HOME/token; Prometheus needs no more than $DM_HOME/metrics-token; this user's own daemon "
        "needs none: leave --addr and DM_ADDR unset",
    ),
    ErrorKind(
        "permission-missing", 40921, "dm-worker", "internal", "medium",
        "{bearer} has {has}, and this request needs the permission `{wanted}`",
        "ask with another token; `dmctl token list` at the daemon's host shows who has which permission, and "
        "`dmctl token create <name> --permission {wanted}` makes such a token",
    ),
    ErrorKind(
        "tokens-unusable", 40922, "config", "internal", "high",
        "the file of tokens {path} can't be used: {problem}",
        "correct the line, which has `<name> <permission> <time> sha256:<hash>`; or delete the file, which revokes "
        "all of them, and make new ones with `dmctl token create`. Its mode is 0600",
    ),
    ErrorKind(
        "bearer-exists", 40923, "config", "internal", "low",
        "{bearer} has a token already",
        "name this token differently, so that the audit log tells them apart; or revoke the other token first: "
        "`dmctl token revoke {bearer}`",
    ),
    ErrorKind(
        "bearer-unknown", 40924, "config", "internal", "low",
        "no token is of {bearer}; there are those of {there}",
        "`dmctl token list` shows them",
    ),
    ErrorKind(
        "bearer-name-wrong", 40925, "config", "internal", "low",
        "{bearer} can't be the name of a token's bearer",
        "use letters, digits and ._@- (at most 64); the common name of a certificate is ASCII",
    ),
    ErrorKind(
        "certificate-unusable", 40926, "config", "internal", "high",
        "the certificate {path} can't be used",
        "see the cause; --ssl-cert has the certificate and those of intermediate CAs, --ssl-key its key without a "
        "password, both in PEM; the daemon's user must be able to read them",
    ),
    ErrorKind(
        "token-unusable", 40919, "config", "internal", "high",
        "the token {path} can't be used: {problem}",
        "delete the file and restart dm-worker, which makes a new token; then copy it to every client (Prometheus, "
        "dmctl)",
    ),
    ErrorKind(
        "history-unreadable", 40960, "dm-worker", "internal", "low",
        "the history in {path} can't be read: {problem}",
        "nothing is to be done: it begins anew, tasks do not depend on it, and what was there is in {aside}",
    ),
    ErrorKind(
        "request-too-large", 40950, "dm-worker", "internal", "medium",
        "a request to dm-worker may have at most {most} MiB, and this request has more",
        "source and task files are far smaller: check which file was given",
    ),
    ErrorKind(
        "openapi-request-invalid", 49001, "openapi", "internal", "medium",
        "{problem}",
        "{hint}",
    ),
    ErrorKind(
        "template-exists", 49002, "openapi", "internal", "low",
        "there is a template {template} already",
        "update it (PUT), or delete it first; an import replaces it with `overwrite`",
    ),
    ErrorKind(
        "template-unknown", 49003, "openapi", "internal", "low",
        "there is no template {template}",
        "GET /api/v1/tasks/templates lists them",
    ),
    ErrorKind(
        "openapi-without-field", 49900, "openapi", "internal", "medium",
        "{what} has keys for which DM's OpenAPI has no field: {keys}",
        "use the file itself: `{instead}`",
    ),
    ErrorKind(
        "openapi-single-host", 49901, "openapi", "internal", "low",
        "{what} is not possible: this dm-worker is the only process there is, with all sources ({worker})",
        "{hint}",
    ),
    ErrorKind(
        "source-disabled", 49902, "openapi", "internal", "low",
        "source {source} is disabled, so task {task} can't be started on it",
        "POST /api/v1/sources/{source}/enable",
    ),
    ErrorKind(
        "other-origin", 40927, "dm-worker", "internal", "low",
        "a web page of {origin} may not ask dm-worker",
        "open the page of this dm-worker itself; programs send no `Origin`",
    ),
    ErrorKind(
        "home-unusable", 40930, "config", "internal", "medium",
        "the state directory {home} can't be made or used",
        "set DM_HOME to a directory that is yours and that you may write to; the default is ~/.dm",
    ),
    ErrorKind(
        "relay-directory-unusable", 40931, "config", "internal", "medium",
        "the relay directory {directory} of source {source} can't be used",
        "let the user of dm-worker write there, or name another directory in `relay-dir` of the source file; without "
        "`relay-dir`, relay files are below $DM_HOME",
    ),
    ErrorKind(
        "file-unreadable", 48900, "config", "not-set", "medium",
        "can't read {file}",
        "give the path of a source or task file (YAML in UTF-8)",
    ),
    ErrorKind(
        "file-unwritable", 48931, "config", "not-set", "medium",
        "can't write {file}",
        "name another place with --path",
    ),
    ErrorKind(
        "bundle-unwritable", 48976, "dmctl", "internal", "medium",
        "can't write the bundle into {file}: {why}",
        "name a file that is not there yet, in a directory of yours: `dmctl support-bundle -o <file>`",
    ),
    ErrorKind(
        "daemon-unreachable", 48001, "dmctl", "internal", "high",
        "no dm-worker answers at {address}",
        "start a daemon with `dm-worker`, or leave --addr and DM_ADDR unset and dmctl starts a private daemon",
    ),
    ErrorKind(
        "daemon-silent", 48930, "dmctl", "internal", "medium",
        "dm-worker at {address} did not answer within {seconds} s",
        "dm-worker continues with the request: see `dmctl query-status`, or wait longer with --rpc-timeout",
    ),
    ErrorKind(
        "daemon-start-failed", 48902, "dmctl", "internal", "high",
        "the private dm-worker did not start",
        "its log is {log}",
    ),
    ErrorKind(
        "listener-not-trusted", 48932, "dmctl", "internal", "high",
        "{who} listens at {address}, and not a dm-worker of this user: nothing was sent there",
        "see whether your dm-worker runs, and at which port; if that of another user is meant, name the user in "
        "DM_ADDR_USER",
    ),
    ErrorKind(
        "address-not-local", 48933, "config", "internal", "medium",
        "{address} is another machine, and nothing was sent there: without --ssl-ca it can't show whose it is",
        "name the CA of that dm-worker's certificate with --ssl-ca or DM_SSL_CA; or make an ssh tunnel to that machine "
        "and name its end here, as 127.0.0.1:8261",
    ),
    ErrorKind(
        "listener-not-shown", 48935, "dmctl", "internal", "high",
        "what listens at {address} has no certificate of that CA for this name, or takes none of ours: nothing was "
        "sent there",
        "see the cause; --addr must be a name or an address in dm-worker's certificate, --ssl-ca the CA that made it. "
        "A dm-worker without --ssl-cert knows no TLS: leave --ssl-ca away",
    ),
    ErrorKind(
        "client-certificate-unusable", 48938, "config", "internal", "medium",
        "a file of --ssl-ca, --ssl-cert and --ssl-key can't be used: {path}",
        "see the cause; they are PEM files that this user can read",
    ),
    ErrorKind(
        "bad-answer", 48903, "dmctl", "internal", "high",
        "{address} is no dm-worker of this version: its answer has HTTP status {status} and another form",
        "check --addr and DM_ADDR. A dm-worker that has run since before an upgrade ends by SIGTERM (`kill`) to the "
        "process whose number is in `$DM_HOME/lock`; start it again, as the next `dmctl` does with a private one, and "
        "its tasks go on",
    ),
    ErrorKind(
        "bad-name-in-answer", 48934, "dmctl", "internal", "high",
        "the answer names a source or task {said!r}, which can't be the name of a file: nothing was written",
        "check --addr and DM_ADDR: dm-worker takes no such name",
    ),
    ErrorKind(
        "forgotten-unknown", 48936, "dmctl", "internal", "medium",
        "there are no forgotten remains named {what}; there are: {there}",
        "`dmctl forgotten list` has the names; files and progress of known sources and tasks are not listed",
    ),
    ErrorKind(
        "forgotten-ambiguous", 48937, "dmctl", "internal", "medium",
        "{what} is at several places: {where}",
        "name the task file with the target that you mean: --file",
    ),
    ErrorKind(
        "usage", 48904, "config", "not-set", "medium",
        "{problem}",
        "{hint}",
    ),
    ErrorKind(
        "until-unreadable",
        20980,
        "config",
        "not-set",
        "medium",
        "{place} is not a place in a binlog",
        "write a file and an offset (mysql-bin.000003:154), a GTID set of the source, or a time "
        "('2026-11-21 10:00:00', in the source's time zone unless it names another)",
    ),
    ErrorKind(
        "until-without-sync",
        20981,
        "config",
        "internal",
        "medium",
        "task {task} has the task-mode {mode}: it ends with its load, and reads no binlog that --until could end",
        "leave --until out, or use `task-mode: all` or `incremental`",
    ),
    ErrorKind(
        "until-of-several-sources",
        20982,
        "config",
        "internal",
        "medium",
        "a place in one source's binlog means nothing in the others: task {task} has the sources {sources}",
        "start the sources one by one with -s, each with a place of its own, or give a time",
    ),
    ErrorKind(
        "until-passed",
        36994,
        "sync-unit",
        "internal",
        "medium",
        "the task can't end at {place}: everything up to {checkpoint} is applied, or may be",
        "give that place or a later one. To bring a target to an earlier state, load it anew: with --remove-meta, "
        "into empty tables",
    ),
    ErrorKind(
        "until-elsewhere",
        36995,
        "sync-unit",
        "upstream",
        "medium",
        "the task is to end at {place} of server {server}, and it reads the binlog of server {now}: places of two "
        "servers can't be compared",
        "`dmctl stop-task`, and start it again with a GTID set or a time as --until",
    ),
    ErrorKind(
        "until-without-gtids",
        36996,
        "sync-unit",
        "upstream",
        "medium",
        "the task can't end at the GTID set {place}: it begins at {checkpoint}, of which no GTID set is known",
        "give a file and an offset, or a time, as --until",
    ),
)  # fmt: skip
