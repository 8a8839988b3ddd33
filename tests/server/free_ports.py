"""Ports for servers whose addresses stand in a document."""

import socket


def free_ports(count):
    """Ports that nobody has, different ones."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
