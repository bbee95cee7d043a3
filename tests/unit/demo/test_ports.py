"""A server's port belongs to it while it is down, too."""

from __future__ import annotations

import socket
from unittest.mock import patch

from dm.demo.private_server import HOST, ReservedPort, free_port


def test_a_server_listens_on_the_port_that_is_reserved_for_it() -> None:
    reserved = ReservedPort()
    for _ in range(2):  # and again after a restart
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as every server does
            server.bind((HOST, reserved.number))
            server.listen()
            with socket.create_connection((HOST, reserved.number)) as client:
                assert client.getpeername()[1] == reserved.number
    reserved.release()


def test_nobody_finds_a_reserved_port_until_it_is_released() -> None:
    reserved = ReservedPort()
    drawn = [free_port(), reserved.number]  # popped from the end: the reserved one first
    other = drawn[0]
    with patch("dm.demo.private_server.random.SystemRandom") as chosen:
        chosen.return_value.choice.side_effect = lambda _: drawn.pop()
        assert free_port() == other
        reserved.release()
        drawn.append(reserved.number)
        assert free_port() == reserved.number
