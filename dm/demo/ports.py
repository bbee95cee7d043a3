"""Ports on 127.0.0.1 that belong to one server of ours for as long as it exists, also while it is down.

A port that is merely free may be taken by another server before ours listens there. With the same password on both,
ours would seem to run: the other one answers. So a server's port is bound by a socket that never listens. Linux lets
two sockets share a port if both have SO_REUSEADDR and neither listens (ip(7)), and every server sets it; the search for
a port does not, so it passes by what is reserved. The kernel gives a port back when its process ends, however it ends.
"""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
_PORTS = range(16_000, 32_000)  # below Linux's ephemeral range, so that no outgoing connection sits on one


class ReservedPort:
    """A port that nobody else finds until it is released."""

    def __init__(self) -> None:
        while True:
            self._socket = socket.socket()
            self.number = random.SystemRandom().choice(_PORTS)
            try:
                self._socket.bind((HOST, self.number))
            except OSError:
                self._socket.close()
                continue
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return

    def release(self) -> None:
        """Leave it to whoever comes."""
        self._socket.close()


def free_port() -> int:
    """A port that nobody listens on or has reserved."""
    reserved = ReservedPort()
    reserved.release()
    return reserved.number
