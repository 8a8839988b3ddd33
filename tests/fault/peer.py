"""The clients that the attacks are made of: raw stubs, with a connection for each Peer.

    with Peer(address) as peer:
      peer.call("ServerService/GetServerInfo", server_pb2.GetServerInfoRequest())
"""

import collections
import contextlib
import queue
import threading
import time

import grpc

from gluond.v1 import command_pb2, session_pb2
from tests.fault.http2 import authorization

HEALTH, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"


def told(error):
    """A failed call's code and text, cut to one line."""
    if not isinstance(error, grpc.RpcError):
        return f"{type(error).__name__}: {error}"
    return f"{error.code().name}: {(error.details() or '').splitlines()[0] if error.details() else ''}"[:160]


class Told(collections.Counter):
    """The answers to an attacker, and their numbers. Thread-safe."""

    def __init__(self):
        super().__init__()
        self._mutex = threading.Lock()

    def note(self, what="OK"):
        with self._mutex:
            self[what if isinstance(what, str) else told(what)] += 1


def encoded(request):
    return request if isinstance(request, bytes) else request.SerializeToString()


class Peer:
    """One connection: gRPC would let channels of one address share theirs."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(
            address,
            [
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_reconnect_backoff_ms", 1000),
            ],
        )

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.channel.close()

    def method(self, name):
        """The callable of a unary method; messages or bytes go in, bytes come out."""
        path = name if name.startswith("/") else "/gluond.v1." + name
        return self.channel.unary_unary(path, encoded)

    def call(self, name, request=b"", timeout=60, metadata=()):
        return self.method(name)(request, timeout=timeout, metadata=authorization() + metadata)

    def start(self, name, request=b"", timeout=60, metadata=()):
        return self.method(name).future(request, timeout=timeout, metadata=authorization() + metadata)

    def stream(self, path, responses):
        """The callable of a stream of messages either way."""
        call = self.channel.stream_stream(path, encoded, responses.FromString)
        return lambda requests, timeout=None: call(requests, timeout=timeout, metadata=authorization())


class Companion:
    """Another client on an attacker's connection, as behind a proxy: its stream lasts, and its calls are answered.

    An attacker may take all the calls that a connection may have; then the companion is told so, or has to wait.
    """

    def __init__(self, peer, noted):
        self._peer, self._noted, self._left = peer, noted, threading.Event()
        self._watch = peer.channel.unary_stream(WATCH)(b"")
        threading.Thread(target=self._follow, daemon=True).start()
        threading.Thread(target=self._ask, daemon=True).start()

    def _note(self, error):
        if not self._left.is_set():
            self._noted.note(f"BROKEN: beside it on its connection: {told(error)}")

    def _follow(self):
        try:
            for _ in self._watch:
                pass
        except grpc.RpcError as error:
            self._note(error)

    def _ask(self):
        while not self._left.wait(0.1):
            try:
                self._peer.call(HEALTH)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    self._note(error)
            except ValueError:  # The channel is closed.
                return

    def leave(self):
        self._left.set()
        self._watch.cancel()


@contextlib.contextmanager
def shared_peer(target, noted):
    """A Peer, with a Companion where the target's attack harms nobody on its own connection."""
    with Peer(target.address) as peer:
        companion = Companion(peer, noted) if target.is_shared else None
        try:
            yield peer
        finally:
            if companion is not None:
                companion.leave()


def session_commands(first, *commands):
    """A request for a session, encoded; the commands are given as dicts."""
    return session_pb2.SessionRequest(first_number=first, commands=[command_pb2.Command(**c) for c in commands]).SerializeToString()


class Session:
    """A session's stream. Commands are numbered as they are sent; replies are read by who wants them."""

    def __init__(self, peer, timeout=None, host=""):
        self._outgoing = queue.SimpleQueue()
        self._next = 1
        self._outgoing.put(session_pb2.SessionRequest(open=session_pb2.OpenSession(host=host, protocol=2)))
        run = peer.stream("/gluond.v1.SessionService/Run", session_pb2.SessionResponse)
        self.responses = run(iter(self._outgoing.get, None), timeout=timeout)

    def send(self, *commands):
        """Sends Commands, given as dicts; returns the last one's number."""
        self.send_encoded(session_commands(self._next, *commands), len(commands))
        return self._next - 1

    def send_encoded(self, request, count):
        """Sends a request of so many commands that was encoded before."""
        self._outgoing.put(request)
        self._next += count

    def replies(self):
        for response in self.responses:
            yield from response.replies

    def answer(self, **command):
        """Sends one command that is answered; returns its Reply."""
        number = self.send(command)
        return next(reply for reply in self.replies() if reply.number == number)

    def wait(self, told=None):
        """Waits until all has been executed; notes the failures."""
        reply = self.answer(wait_all=command_pb2.Command.WaitAll())
        for failure in reply.failures if told is not None else ():
            told.note(f"{grpc_code(failure.status.code)}: {failure.status.message}"[:160])
        return reply

    def close(self):
        self._outgoing.put(None)


def wait_for_all(noted, calls):
    for call in calls:
        noted.note(call.exception() or "OK")


def grpc_code(number):
    return next(code.name for code in grpc.StatusCode if code.value[0] == number)


def crowd(target, body):
    """Has `body(peer, told, i)` run again and again, in a thread for each of the target's connections, until time is up.

    Its exceptions are noted, and end nothing. The first connection is shared.
    """
    noted, end = Told(), time.monotonic() + target.seconds

    def attack(i):
        with Peer(target.address) if i else shared_peer(target, noted) as peer:
            while time.monotonic() < end:
                try:
                    body(peer, noted, i)
                except (grpc.RpcError, StopIteration, ValueError) as error:
                    noted.note(error)
                    time.sleep(0.005)

    threads = [threading.Thread(target=attack, args=(i,), daemon=True) for i in range(target.connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, end + 2 - time.monotonic()))
    return noted
