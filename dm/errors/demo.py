"""Errors of the demo and of the throw-away servers."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "server-not-installed", 11910, "functional", "internal", "high",
        "there is no {flavor} server to start: {missing}",
        "run `make install`, which installs both servers",
    ),
    ErrorKind(
        "server-not-started", 11911, "functional", "internal", "high",
        "the private {flavor} server in {directory} did not start; its log ends with:\n{log}",
        "see the log; memory, disk space and access rights are the usual reasons",
    ),
    ErrorKind(
        "demo-stuck", 11912, "functional", "internal", "high",
        "the demo is stuck in one step: {what}; nothing new for {seconds} s",
        "the status above and the logs in {log} tell why",
    ),
)  # fmt: skip
