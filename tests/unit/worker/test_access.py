"""The token: made for its user alone, kept, and compared whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dm.errors import DMError
from dm.worker.access import AccessToken
from dm.worker.home import Home


def _bearer(text: str, name: bytes = b"authorization") -> list[tuple[bytes, bytes]]:
    return [(b"host", b"localhost"), (name, f"Bearer {text}".encode())]


def test_it_is_made_once_and_only_its_user_can_read_it(tmp_path: Path) -> None:
    first = AccessToken.kept(tmp_path / "token")
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert len(first.text) >= 43  # 256 bits
    assert AccessToken.kept(tmp_path / "token") == first
    assert [file.name for file in tmp_path.iterdir()] == ["token"]
    assert AccessToken.kept(tmp_path / "other").text != first.text


def test_what_a_crash_left_of_another_one_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".token.tmp").write_text("half")
    first = AccessToken.kept(tmp_path / "token")
    assert first.text != "half"
    assert AccessToken.kept(tmp_path / "token") == first


def test_only_the_whole_token_is_the_token(tmp_path: Path) -> None:
    token = AccessToken.kept(tmp_path / "token")
    assert token.is_in(_bearer(token.text))
    assert token.is_in(_bearer(token.text, b"Authorization"))
    assert token.is_in([(b"authorization", f"bearer  {token.text}".encode())])
    for wrong in (token.text[:-1], f"{token.text}x", token.text.swapcase(), "", "\u00fc"):
        assert not token.is_in(_bearer(wrong))
    assert not token.is_in([])
    assert not token.is_in([(b"authorization", token.text.encode())])
    assert not token.is_in([(b"authorization", f"Basic {token.text}".encode())])
    assert not token.is_in([*_bearer(token.text), *_bearer("x" * 43)])  # which one is meant is not for us to choose


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_one_that_others_may_use_is_none(tmp_path: Path, mode: int) -> None:
    path = AccessToken.kept(tmp_path / "token").path
    path.chmod(mode)
    with pytest.raises(DMError, match=f"its mode is {mode:04o}") as refused:
        AccessToken.kept(path)
    assert "delete the file" in refused.value.report()["Workaround"]


@pytest.mark.parametrize("text", ["", "short\n", "\u00fc" * 40])
def test_one_that_could_be_guessed_or_sent_by_nobody_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DMError, match=r"can't be used"):
        AccessToken.kept(path)


def test_it_is_not_in_what_is_printed_of_it(tmp_path: Path) -> None:
    token = AccessToken.kept(tmp_path / "token")
    assert token.text not in repr(token)


def test_what_belongs_to_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "home")
    home.create()
    AccessToken.kept(home.token)
    with home.locked():
        pass
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    for use in (home.create, home.locked().__enter__, lambda: AccessToken.kept(home.token)):
        with pytest.raises(DMError) as caught:
            use()
        assert f"belongs to user {os.getuid()}" in caught.value.cause


def test_a_lock_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    (home.directory / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(DMError, match="state directory"), home.locked():
        pass
    assert not (tmp_path / "victim").exists()
