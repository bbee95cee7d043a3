"""The log of a source: the server that has it, the relay's files, and whole transactions.

All readers use one interface, `dm.sourcelog.stream.source_log`: where from, which tables, up to where, what becomes of
undecided XA. They get whole transactions, and are told when the log is at rest. `upstream` and `relaylog` bring the
same events from a server or from files; `stream` makes transactions of them. Nothing here knows the target.
"""
