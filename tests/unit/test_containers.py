"""The image and the manifests: what of them can be known without a builder and a cluster.

The steps of the image are carried out by `python -m tests.testbed.containerfile`, which needs a Debian to work in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from dm.cluster.etcd_access import EtcdAccess
from dm.worker.options import parser
from tests.testbed.containerfile import FILE, steps
from tests.unit.docs.document import ROOT

KUBERNETES = ROOT / "packaging" / "kubernetes"
SEVERAL = ROOT / "packaging" / "kubernetes-cluster"
STEPS = steps(FILE.read_text(encoding="utf-8"))


def manifests(folder: Path = KUBERNETES, name: str = "dm-worker.yaml") -> list[dict[str, Any]]:
    text = (folder / name).read_text(encoding="utf-8")
    return [dict(one) for one in YAML(typ="safe").load_all(text)]


def pod(folder: Path = KUBERNETES, name: str = "dm-worker.yaml") -> dict[str, Any]:
    (found,) = (one for one in manifests(folder, name) if one["kind"] == "StatefulSet")
    template: dict[str, Any] = found["spec"]["template"]["spec"]
    return template


@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_the_manifests_fit_their_schemas(version: str) -> None:
    for one in (*manifests(), *manifests(SEVERAL), *manifests(SEVERAL, "etcd.yaml")):
        kubernetes_validate.validate(one, version, strict=True)


def test_a_key_that_is_none_would_be_refused() -> None:
    service = next(one for one in manifests() if one["kind"] == "Service")
    service["spec"]["replica"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, "1.37", strict=True)


def test_what_the_manifests_name_exists() -> None:
    (container,) = pod()["containers"]
    options = {flag for action in parser()._actions for flag in action.option_strings}
    assert {word.partition("=")[0] for word in container["args"]} <= options
    assert {each["name"] for each in container["volumeMounts"]} == {
        *(each["name"] for each in pod()["volumes"]),
        "state",
    }
    kustomization = YAML(typ="safe").load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))
    assert all((KUBERNETES / name).is_file() for name in kustomization["resources"])
    (secret,) = kustomization["secretGenerator"]
    assert secret["name"] in [each.get("secret", {}).get("secretName") for each in pod()["volumes"]]


@pytest.mark.parametrize("name", ["dm-worker.yaml", "etcd.yaml"])
def test_what_the_manifests_of_several_hosts_name_exists(name: str) -> None:
    (container,) = pod(SEVERAL, name)["containers"]
    if name == "dm-worker.yaml":
        options = {flag for action in parser()._actions for flag in action.option_strings}
        assert {word.partition("=")[0] for word in container["args"]} <= options
        read = parser().parse_args(container["args"])
        etcds = [f"https://etcd-{number}.etcd:2379" for number in range(3)]
        assert EtcdAccess.of(read.cluster).endpoints == tuple(etcds)
    assert {each["name"] for each in container["volumeMounts"]} == {
        *(each["name"] for each in pod(SEVERAL, name)["volumes"]),
        "state",
    }
    kustomization = YAML(typ="safe").load((SEVERAL / "kustomization.yaml").read_text(encoding="utf-8"))
    assert sorted(kustomization["resources"]) == ["dm-worker.yaml", "etcd.yaml"]
    made = {
        each["name"]: {file.partition("=")[0] for file in each["files"]} for each in kustomization["secretGenerator"]
    }
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    for volume in pod(SEVERAL, name)["volumes"]:
        secret = volume.get("secret", {}).get("secretName")
        files = {word.rpartition("/")[2] for word in container["args"] if f"={mounted[volume['name']]}/" in word}
        assert secret is None or files == made[secret]


def test_image_and_manifests_agree() -> None:
    said = dict(STEPS)
    (container,) = pod()["containers"]
    probes = [container[name]["exec"]["command"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    (health,) = YAML(typ="safe").load(f"[{said['HEALTHCHECK'].partition('CMD ')[2]}]")
    assert probes == [health] * 3
    assert said["USER"] == str(pod()["securityContext"]["runAsUser"]) != "0"
    assert said["EXPOSE"].split() == [str(each["containerPort"]) for each in container["ports"]]
    state = next(each["mountPath"] for each in container["volumeMounts"] if each["name"] == "state")
    assert said["VOLUME"] == state
    assert container["env"][0]["value"].startswith(state)


def test_nothing_runs_as_root_after_the_user_is_named() -> None:
    words = [word for word, _ in STEPS]
    assert "RUN" not in words[words.index("USER") :]
    assert words[-1] == "ENTRYPOINT"
