"""Verbs of the daemon and of `dmctl` themselves."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from dm.verbs.declaration import READS, Verb, argument, shape

DAEMON: Final = shape("DaemonTold", version=str, pid=int, processes=dict[str, int])
ENDING: Final = shape("DaemonEnds", pid=int)
ENCRYPTED: Final = shape("Encrypted", cipherText=str)


class Daemon(Verb, route="GET daemon", permission=READS, answer=DAEMON):
    """Tell the daemon's version and processes."""


class Shutdown(Verb, name="shutdown", route="POST daemon/shutdown", answer=ENDING):
    """End the daemon; its tasks go on when it is started again."""


class Encrypt(Verb, name="encrypt", route="POST encrypt", permission=READS, answer=ENCRYPTED):
    """Encrypt a password of a source or task file. The key is in $DM_HOME/secret-key."""

    text: Annotated[
        str | None,
        argument("the password; read from standard input when left out, which `ps` can't show", name="password"),
    ] = None


class Completion(Verb, name="completion", asks_daemon=False):
    """Print a script for completion in a shell. Use it as: source <(dmctl completion bash)."""

    shell: Annotated[Literal["bash", "zsh", "fish"], argument("the shell", sent=False)]


class Demo(Verb, name="demo", asks_daemon=False, words_as_they_are=True):
    """Show dm at work on throw-away servers. Load, sync, a kill, a comparison."""

    words: tuple[str, ...] = ()
