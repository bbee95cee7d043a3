"""Which tables, events and rows of a source take part, and under which names they arrive. Pure: no I/O."""

from dm.rules.event_filter import Verdict
from dm.rules.router import ExtractedColumn
from dm.rules.row_filter import RowFilter
from dm.rules.table_rules import TableRules

__all__ = ["ExtractedColumn", "RowFilter", "TableRules", "Verdict"]
