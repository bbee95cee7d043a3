"""A cluster whose members show no secret to each other gets no task."""

from __future__ import annotations

import pytest

from dm.config.units import SparkConfig
from dm.task.precheck.access import cluster_authentication

ON = {"spark.authenticate": "true"}
WHOLE = {**ON, "spark.network.crypto.enabled": "TRUE"}


@pytest.mark.parametrize(
    ("master", "conf", "state", "told"),
    [
        ("spark://head:7077", {}, "failure", "spark.authenticate.secret"),
        ("spark://head:7077", ON, "warning", "spark.network.crypto.enabled"),
        ("spark://head:7077", WHOLE, "success", ""),
        ("yarn", {"spark.authenticate": "no"}, "failure", "spark.authenticate: true"),
        ("k8s://https://host:443", WHOLE, "success", ""),
    ],
)
def test_a_cluster_has_to_have_a_secret(master: str, conf: dict[str, str], state: str, told: str) -> None:
    (result,) = cluster_authentication(SparkConfig(master=master, conf=conf))
    assert (result.item, result.state) == ("spark_authentication", state)
    assert told in result.instruction
    assert ("spark.authenticate.secret" in result.instruction) == (state == "failure" and master.startswith("spark"))


@pytest.mark.parametrize("master", ["", "local[4]", "local-cluster[1,1,1024]"])
def test_a_local_master_has_one_of_its_own(master: str) -> None:
    assert list(cluster_authentication(SparkConfig(master=master))) == []
