"""HTTP/2 by hand: a client that sends frames as it likes, also wrong ones, and reads only when told to.

Headers are encoded without Huffman codes and without the dynamic table, which every server must understand.
"""

import os
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4
ERRORS = (
    "NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR "
    "REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM"
).split()


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def integer(value, bits, first=0):
    """HPACK's integer with a prefix of so many bits; `first` holds the bits before it."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes((first | value,))
    out, value = [first | limit], value - limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes(out + [value])


def literal(name, value, first=0):
    """A header. `first`: 0x40 adds it to the dynamic table, 0 does not."""
    return bytes((first,)) + b"".join(integer(len(text), 7) + text for text in (name.encode(), value.encode()))


TOKEN = "FAULT_TOKEN"  # The variable with the token by which this process names itself; unset: it is a stranger.


def authorization():
    """The metadata of a call."""
    return (("authorization", f"Bearer {os.environ[TOKEN]}"),) if os.environ.get(TOKEN) else ()


def grpc_headers(method, *extra):
    path = method if method.startswith("/") else "/gluond.v1." + method
    headers = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *authorization(),
    )
    return b"".join(literal(name, value) for name, value in headers + extra)


def varint(value):
    """Protobuf's integer, which is HPACK's but for the prefix."""
    return bytes((value,)) if value < 128 else bytes((value % 128 + 128,)) + varint(value // 128)


def message(request):
    """A gRPC message: not compressed, with its length."""
    body = request if isinstance(request, bytes) else request.SerializeToString()
    return struct.pack(">BI", 0, len(body)) + body


class Connection:
    """A TCP connection that has sent its preface. Its methods raise OSError once the server has closed it."""

    def __init__(self, address, *settings, preface=True):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self._next, self._window, self._initial = 1, 65535, 65535
        self._unread = bytearray()  # Frames that have come and nobody has asked for, the last one not whole.
        if preface:
            self.send(PREFACE + frame(SETTINGS, payload=b"".join(struct.pack(">HI", *pair) for pair in settings)))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def stream(self):
        """The number of a new stream."""
        self._next += 2
        return self._next - 2

    def open(self, method, *extra, end=False):
        """Sends the headers of a call; returns its stream."""
        stream = self.stream()
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, grpc_headers(method, *extra)))
        return stream

    def ask(self, method, request):
        """Sends a whole call, in frames of 16 KB and within windows that the server opens as it likes."""
        stream, body = self.open(method), message(request)
        for i in range(0, len(body), 16384):
            self.send(frame(DATA, END_STREAM if i + 16384 >= len(body) else 0, stream, body[i : i + 16384]))
        return stream

    def pour(self, stream, body, end, last=True):
        """Sends a large message as fast as the server's windows allow, until a time. `last`: the stream ends with it."""
        windows, sent = {0: self._window, stream: self._initial}, 0
        while sent < len(body) and time.monotonic() < end:
            size = min(16384, len(body) - sent, *windows.values())
            if size > 0:
                sent += size
                self.send(frame(DATA, END_STREAM if last and sent == len(body) else 0, stream, body[sent - size : sent]))
                windows = {number: window - size for number, window in windows.items()}
                continue
            for kind, _, number, payload in self.read(0.02):
                if kind == WINDOW_UPDATE and number in windows:
                    windows[number] += int.from_bytes(payload, "big")
                    if min(windows.values()) > 0:
                        break
                elif kind == SETTINGS:
                    for name, value in struct.iter_unpack(">HI", payload):
                        if name == INITIAL_WINDOW_SIZE:
                            windows[stream] += value - self._initial
                            self._initial = value
                elif kind == RST_STREAM and number == stream:
                    end = 0
        self._window = windows[0]

    def read(self, seconds=0.0):
        """The frames of the next seconds, as (kind, flags, stream, payload). Raises OSError where the server has closed."""
        self.socket.settimeout(max(seconds, 0.001))
        try:
            while True:
                end = 9 + int.from_bytes(self._unread[:3], "big")
                if len(self._unread) < end:
                    piece = self.socket.recv(1 << 16)
                    if not piece:
                        raise ConnectionResetError("closed")
                    self._unread += piece
                    continue
                head, payload = self._unread[:9], bytes(self._unread[9:end])
                del self._unread[:end]
                yield head[3], head[4], int.from_bytes(head[5:], "big"), payload
        except socket.timeout:
            return
        finally:
            self.socket.settimeout(10)

    def farewell(self, seconds=1.0):
        """How the server sees this connection: as text, for Told."""
        try:
            for kind, _, _, payload in self.read(seconds):
                if kind == GOAWAY:
                    code = int.from_bytes(payload[4:8], "big")
                    return f"GOAWAY {ERRORS[code] if code < len(ERRORS) else code}: {payload[8:].decode(errors='replace')}"[:120]
            self.send(frame(PING, payload=bytes(8)))
            return "still connected" if any(kind == PING for kind, *_ in self.read(seconds)) else "no answer"
        except OSError:
            return "closed"
