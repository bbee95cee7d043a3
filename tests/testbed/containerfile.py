"""The steps of packaging/Containerfile, carried out in a root directory without a builder of images.

    python -m tests.testbed.containerfile ROOT CONTEXT

ROOT is a Debian 12 (`debootstrap --variant=minbase bookworm ROOT`), CONTEXT the directory with the wheels. RUN is
chroot(8) with the container's environment, COPY copies. Only what the file uses is understood; all else is an error.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parents[2] / "packaging" / "Containerfile"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TOLD: Final = ("ARG", "FROM", "VOLUME", "EXPOSE", "STOPSIGNAL")  # of images, with nothing to do here


@dataclass
class Image:
    """What the steps leave: a root, and how its process is to run."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": _PATH})
    user: str = "0"
    directory: str = "/"
    entry: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    def command(self, *words: str) -> list[str]:
        """What runs a command in it as its user."""
        return ["/usr/sbin/chroot", f"--userspec={self.user}:{self.user}", str(self.root), *words]

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it as its user, to its end."""
        return subprocess.run(
            self.command(*words), env={**self.environment, **environment}, text=True, capture_output=True, check=False
        )


def steps(text: str) -> list[tuple[str, str]]:
    """Instructions with their words: lines are joined, comments are left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (word, rest.strip()) for word, _, rest in (line.strip().partition(" ") for line in joined.splitlines() if line)
    ]


def build(root: Path, context: Path, proxy: Mapping[str, str] | None = None) -> Image:
    """Carry the steps out; raises CalledProcessError for the first that fails, ValueError for an unknown one."""
    image = Image(root)
    for word, rest in steps(FILE.read_text(encoding="utf-8")):
        if word == "RUN":
            _run(image, rest, proxy or {})
        elif word == "COPY":
            *sources, target = rest.split()
            place = image.root / target.strip("/")
            place.mkdir(parents=True, exist_ok=True)
            found = [file for pattern in sources for file in context.glob(pattern)]
            if not found:
                raise ValueError(f"nothing in {context} is called {rest}")
            for file in found:
                shutil.copy(file, place)
        elif word == "ENV":
            image.environment |= dict(pair.split("=", 1) for pair in rest.split())
        elif word == "USER":
            image.user = rest
        elif word == "WORKDIR":
            image.directory = rest
        elif word == "ENTRYPOINT":
            image.entry = json.loads(rest)
        elif word == "HEALTHCHECK":
            image.health = json.loads(rest.partition("CMD ")[2])
        elif word not in _TOLD:
            raise ValueError(f"{word} is not understood")
    return image


def _run(image: Image, command: str, proxy: Mapping[str, str]) -> None:
    print(f"RUN {command}", flush=True)
    environment = {**proxy, **image.environment, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["/usr/sbin/chroot", str(image.root), "/bin/sh", "-c", command], env=environment, check=True)


if __name__ == "__main__":
    passed_on = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "HTTP", "http", "SSL"))}
    made = build(Path(sys.argv[1]), Path(sys.argv[2]), passed_on)
    print(made.entry, made.health, made.user, made.environment)
