"""`dmctl encrypt` and a file that holds what it prints."""

from __future__ import annotations

from pathlib import Path

from dm.config.secret import SecretKey, encrypted
from tests.unit.worker.home import home

KEY = "0123456789abcdef" * 4


def test_what_it_prints_is_a_password_of_a_file(tmp_path: Path) -> None:
    with home(tmp_path / "home") as running:
        running.start()
        refused = running.said("encrypt", "secret")
        assert refused.status == 2
        assert "`openssl rand -hex 32`" in refused.err
        key = running.directory / "secret-key"
        key.write_text(KEY + "\n")
        key.chmod(0o600)
        printed = running.said("encrypt", "secret").out.strip()
        content = encrypted(printed)
        assert content is not None
        assert SecretKey.read(key).decrypt(content) == "secret"
        assert running.ok("encrypt", "secret")["cipherText"] != printed
        piped = encrypted(running.dmctl("encrypt", stdin="from a pipe\n").out.strip())
        assert piped is not None
        assert SecretKey.read(key).decrypt(piped) == "from a pipe"

        running.file("enc.yaml", f"source-id: enc\nfrom: {{host: db.example, password: {printed}}}\n")
        assert running.said("operate-source", "create", "enc.yaml").status == 0
        key.write_text("f" * 64)
        running.file("other.yaml", "source-id: other\nfrom: {host: db.example, password: " + _of_other_key() + "}\n")
        refused = running.said("operate-source", "create", "other.yaml")
        assert refused.status == 2
        assert "other.yaml:2:" in refused.err


def _of_other_key() -> str:
    return SecretKey(bytes.fromhex(KEY)).encrypt("a longer secret than chance would spell")
