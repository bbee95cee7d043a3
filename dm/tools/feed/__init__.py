"""The changes of a relay as a Structured Streaming source, for a person's own Spark jobs.

from dm.tools.feed import changes
rows = changes(spark, "/relay/mysql-01", "shop.orders", dump="/shared/dump")
"""

from dm.tools.feed.source import RelayDataSource, changes

__all__ = ["RelayDataSource", "changes"]
