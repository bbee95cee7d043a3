"""One session at the target, as the table of the moment needs it (`dm.changes.computing`)."""

from __future__ import annotations

from dm.changes.computing import PADDING, PLAIN, TableSettings
from dm.downstream.connection import TargetConnection


class TableSession:
    """Gives the session the settings of tables, and its own back."""

    def __init__(self, connection: TargetConnection) -> None:
        self._connection = connection
        self.now = PLAIN

    def take(self, settings: TableSettings) -> None:
        """From here on the session has these."""
        if settings != self.now:
            # Before: where it fails, or the answer is lost, nobody knows what the session has.
            own, self.now = self._own(), settings
            zone, mode = settings.zone or own["time_zone"], settings.mode(own["sql_mode"])
            self._connection.set({"time_zone": zone, "sql_mode": mode})

    def end(self) -> None:
        """The session has its own settings again, unless it is broken."""
        if self.now != PLAIN and self._connection.alive:
            self.take(PLAIN)

    def _own(self) -> dict[str, str]:
        mode = self._connection.has("sql_mode")
        return {"time_zone": "+00:00", "sql_mode": mode.removesuffix(f",{PADDING}")}
