"""Attacks by those who have not said who they are: every method, with messages of one size."""

import itertools

from tests.fault import http2
from tests.fault.peer import crowd, wait_for_all
from tests.server.every_method import OPEN, UNKNOWN, paths

AT_ONCE, LONG_AT_ONCE = 8, 2
POURED = 1 << 16  # Longer messages are sent one after the other, as far as the server takes them.

UNARY = [path for path in OPEN if not path.endswith("Watch")]


def flood(size):
    """An attack: most connections ask by each method in turn, the others by those that want to know nobody."""
    name = b"\x0a" + http2.varint(size) + b"a" * size if size else b""
    body = http2.message(name)

    def ask(connection, path, end):
        if size > POURED:
            return connection.pour(connection.open(path), body, end)
        for _ in range(AT_ONCE):
            connection.send(http2.frame(http2.DATA, http2.END_STREAM, connection.open(path), body))
        for _ in connection.read(0.001):
            pass

    def attack(target):
        def visit(peer, told, i):
            if i % 4 == 0:
                return wait_for_all(
                    told,
                    [
                        peer.start(path, name)
                        for path in itertools.islice(itertools.cycle(UNARY), LONG_AT_ONCE if size > POURED else AT_ONCE)
                    ],
                )
            with http2.Connection(target.address) as connection:
                try:
                    for path in itertools.cycle([*paths(), UNKNOWN]):
                        ask(connection, path, target.end)
                        told.note("sent")
                        if target.is_over():
                            break
                except OSError:
                    pass
                told.note(connection.farewell(0.2))

        return crowd(target, visit)

    return attack
