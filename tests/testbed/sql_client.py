"""The `mysql` or `mariadb` program that comes with a server, as a person runs a file with it."""

from __future__ import annotations

import subprocess

from dm.demo.servers import ThrowawayServer


def run_client(server: ThrowawayServer, statements: bytes, *options: str) -> None:
    """Execute a file; it ends at the first error. Without options it does not read bytes as they are."""
    program = server.installation.command("mysql" if server.flavor == "mysql" else "mariadb")
    place = (f"--host={server.host}", f"--port={server.port}", f"--user={server.user}", f"--password={server.password}")
    done = subprocess.run(
        [*program, "--no-defaults", "--protocol=tcp", *place, *options],
        input=statements,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
