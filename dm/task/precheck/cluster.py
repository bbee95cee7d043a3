"""Whether a Spark cluster gives what it holds to its own members alone.

Tasks elsewhere get passwords in Spark's messages: no file of ours is there. Without `spark.authenticate` the driver and
the executors give those to whoever reaches their ports; without encryption, whoever sees the packets reads along. A
local master needs neither setting, its session sets both (`dm/spark/session.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from dm.config.spark import SparkConfig
from dm.task.precheck.context import Answers, CheckResult

ITEM = "spark_authentication"

_ON = ("true",)
_SECRET_BY_SPARK = ("yarn", "k8s://")  # Spark's security page, "Authentication": elsewhere all hosts are given one


def cluster_authentication(spark: SparkConfig) -> Iterator[CheckResult]:
    """Nothing for a local master."""
    if not spark.master or spark.master.startswith("local"):
        return
    answers = Answers(ITEM, f"Spark cluster {spark.master}")
    if spark.settings.get("spark.authenticate", "").lower() not in _ON:
        given = spark.master.startswith(_SECRET_BY_SPARK)
        also = "" if given else ", and `spark.authenticate.secret` with the secret that its hosts have"
        yield answers.failure(
            "whoever reaches the ports of its driver or executors is given the passwords of source and target",
            f"add `spark.authenticate: true` to `spark.conf`{also} (docs/cluster.md)",
        )
    elif spark.settings.get("spark.network.crypto.enabled", "").lower() not in _ON:
        yield answers.warning(
            "passwords of source and target pass the network unencrypted",
            "add `spark.network.crypto.enabled: true` to `spark.conf`",
        )
    else:
        yield answers.success("its members show each other a secret, and encrypt what they send")
