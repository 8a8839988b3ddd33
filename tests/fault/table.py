"""The attacks, as a table: an attacker's work, and the answers that it may get."""

import contextlib
import dataclasses
import re
import time
from typing import Any, Callable, NamedTuple

from tests.fault import attack_flow, attack_frames, attack_objects, attack_serving, attack_store, attack_strangers, attack_work


class Target(NamedTuple):
    address: str
    seconds: float
    connections: int
    end: float  # When the attack is over, by time.monotonic().
    is_shared: bool  # Somebody else is on a connection of the attacker's, and is not to notice.

    @staticmethod
    def begin(address, seconds, row):
        return Target(address, seconds, row.connections, time.monotonic() + seconds, row.is_well_formed)

    def is_over(self):
        return time.monotonic() >= self.end


@contextlib.contextmanager
def plain():
    yield {}


# An attacker may always be told that its calls are done, wait too long, or are too many, or that it is not let in.
ANY = (
    "OK",
    "sent",
    "connections",
    "still connected",
    "DEADLINE_EXCEEDED",
    "CANCELLED",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE: failed to connect",
)
# An attacker that breaks the protocol, or floods, may meet these besides.
CUT = ANY + ("GOAWAY", "closed", "no answer", "UNAVAILABLE", "ConnectionResetError", "BrokenPipeError", "timeout")


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    does: str
    attack: Callable[[Target], Any]  # Returns Told.
    gets: tuple = ANY  # Patterns, one of which begins like each text that the attacker is told.
    connections: int = 16
    setting: Callable[[], Any] = plain
    is_stranger: bool = False  # The attacker does not say who he is.
    saves: bool = False  # The bystander saves as well: its waits are also those of saves.
    memory: int = 2 << 30  # The server's --max_memory_bytes,
    most_resident: int = (2 << 30) + (2 << 28)  # and the most memory that it may have.

    is_well_formed = property(lambda self: self.gets != CUT)  # It ends its own calls at most.

    def unexpected(self, told):
        return {text: n for text, n in told.items() if n and not any(re.match(p, text) for p in self.gets)}


WORK = [
    Row("fills", "sessions put 300 million random numbers, four times", attack_work.fills),
    Row("graphs", "sessions define a graph of 150,000 nodes, and infer it three times", attack_work.graphs),
    Row("small fills", "600 calls of one client make 2^18 random numbers each", attack_work.small_fills, connections=1),
    Row("products", "products of two 4000 x 4000 matrices", attack_work.products),
    Row("shapes", "products of ever other shapes, with results of 40 MB", attack_work.shapes),
    Row("statistics", "the statistics of 40 million results", attack_work.statistics),
    Row("definitions", "models of 50,000 nodes are defined, described and run", attack_work.definitions),
    Row("commands", "sessions send small commands without a pause", attack_work.commands),
    Row("convolutions", "convolutions of seconds", attack_work.convolutions),
    Row("trainings", "each connection trains a model without a pause", attack_work.trainings),
    Row("queue", "600 TrainSteps of one client wait", attack_work.queue, connections=1),
    Row("deadlines", "400 calls at once with deadlines of 1 to 50 ms", attack_work.deadlines, connections=1),
    Row("bursts", "500 calls are cancelled at once, and 3,000 miss their deadlines", attack_work.bursts),
    Row("long headers", "headers of 17 to 64 KB", attack_work.long_headers),
    Row(
        "unread log",
        "calls fail while nobody reads standard error",
        attack_work.failures,
        gets=ANY + ("NOT_FOUND: .*GetModel",),
        setting=attack_store.unread_log,
    ),
]

FLOW = [
    Row("unread replies", "replies of 32 MB that nobody reads", attack_flow.unread_replies, CUT),
    Row("unread fetches", "sessions fetch 32 MB again and again and read nothing", attack_flow.unread_fetches, CUT),
    Row("unread callbacks", "hosts of operators read no callback", attack_flow.unread_callbacks, CUT),
    Row("unread progress", "trainings without end whose progress nobody reads", attack_flow.unread_progress, CUT),
    Row("slow requests", "900 requests of 60 MB arrive byte by byte", attack_flow.slow_requests, CUT),
    Row("unfinished requests", "requests of 60 MB, but for the last byte", attack_flow.unfinished_requests, CUT),
    Row("half messages", "streams that end within a message, or before it", attack_flow.half_messages, CUT),
    Row("idle connections", "10,000 connections do nothing", attack_flow.idle_connections, CUT),
    Row("idle streams", "10,000 streams of sessions do nothing", attack_flow.idle_streams, CUT),
    Row(
        "descriptors",
        "more connections than the server has file descriptors",
        attack_flow.descriptors,
        CUT,
        setting=attack_store.few_descriptors,
    ),
    Row("visits", "connections are made, used once and broken", attack_flow.comings_and_goings, CUT),
]

FRAMES = [
    Row("rapid resets", "streams are opened and reset", attack_frames.rapid_resets, CUT),
    Row("reset calls", "whole calls are sent and reset", attack_frames.unread_resets, CUT),
    Row("open calls", "calls of all services, without an end, of which only the headers come", attack_frames.open_calls, CUT),
    Row("unknown methods", "calls of a method that there is not, half of them reset", attack_frames.unknown_methods, CUT),
    Row("expired calls", "calls whose deadline has passed", attack_frames.expired_calls, CUT),
    Row("opened sessions", "streams open sessions faster than answers are read", attack_frames.opened_sessions, CUT),
    Row("te headers", "`te: x` with headers over 8 KB", attack_frames.te_headers, CUT),
    Row("large headers", "a megabyte of headers", attack_frames.large_headers, CUT),
    Row("endless headers", "CONTINUATION without end", attack_frames.endless_headers, CUT),
    Row("header bombs", "one header of 4 KB, meant 10,000 times", attack_frames.header_bombs, CUT),
    Row("malformed", "random frames, and frames with wrong bytes", attack_frames.malformed, CUT),
    Row("settings", "SETTINGS by thousands", attack_frames.settings, CUT),
    Row("pings", "PING by thousands", attack_frames.pings, CUT),
    Row("unread pings", "the same, and no answer is read", attack_frames.unread_pings, CUT),
    Row("zero windows", "replies of 400 KB fetched byte by byte", attack_frames.zero_windows, CUT),
]

OBJECTS = [
    Row("clients", "each numbered call is a new client's", attack_objects.clients),
    Row("answers", "the same, with answers of 60 KB that are kept", attack_objects.answers),
    Row("models", "models without end", attack_objects.models),
    Row("uploads", "each upload is a new client's", attack_objects.uploads),
    Row("datasets", "datasets of 100 MB are begun", attack_objects.datasets),
    Row("orders", "5 million rows of a byte, trained on in ever other orders", attack_objects.orders, ANY + ("ALREADY_EXISTS",)),
    Row("downloads", "parameters of 36 MB are fetched and read without a pause", attack_objects.downloads),
    Row("sessions", "sessions that stay", attack_objects.many_sessions),
    Row("tape", "a million tiny arrays with a history", attack_objects.tape),
    Row("variables", "26 MB of declarations", attack_objects.variables, ANY + ("INVALID_ARGUMENT",), connections=4),
    Row("submessages", "500,000 empty tensors in a request", attack_objects.submessages, ANY + ("INVALID_ARGUMENT", "NOT_FOUND")),
    Row("large messages", "60 MB from each of 64 connections at once", attack_objects.large_messages, CUT),
]

STORE = [
    Row("saves", "saves under new names, and lists", attack_objects.checkpoints),
    Row("full disk", "saves on a disk that is full", attack_store.saves, setting=attack_store.full_disk),
    Row(
        "short files",
        "saves where a file may have 256 KB",
        attack_store.saves,
        ANY + ("INTERNAL: .*File too large",),
        setting=attack_store.short_files,
    ),
    Row(
        "read-only disk",
        "saves on a disk that is read-only",
        attack_store.saves,
        ANY + ("FAILED_PRECONDITION: .*[Rr]ead-only",),
        setting=attack_store.read_only_disk,
    ),
    Row(
        "published on a full disk",
        "versions are published on a disk that is full",
        attack_store.publishes,
        setting=attack_store.full_disk,
    ),
    Row(
        "published in short files",
        "versions are published where a file may have 256 KB",
        attack_store.publishes,
        ANY + ("INTERNAL: .*File too large",),
        setting=attack_store.short_files,
    ),
    Row(
        "published read-only",
        "versions are published on a disk that is read-only",
        attack_store.publishes,
        ANY + ("FAILED_PRECONDITION: .*[Rr]ead-only",),
        setting=attack_store.read_only_disk,
    ),
]

SERVING = [
    Row(
        "scrapes",
        "metrics are asked for without a pause, and by heads that never end",
        attack_serving.scrapes,
        CUT,
        setting=attack_serving.metrics,
    ),
    Row("inferences", "64 questions at once to a version of each connection", attack_serving.inferences, CUT),
    Row("rows", "questions of ever other numbers of rows", attack_serving.shapes, CUT),
    Row("publications", "versions without end", attack_serving.publications),
    Row(
        "silent publishes",
        "versions are published beside calls whose operator's host is silent",
        attack_serving.silent_publishes,
        CUT,
        connections=10,
        saves=True,
    ),
]

STRANGERS = [
    Row(
        f"strangers, {name}",
        f"every method without a token, with messages of {name}",
        attack_strangers.flood(size),
        CUT,
        connections=48,
        is_stranger=True,
        memory=1 << 30,
        most_resident=int(1.15 * 2**30) + (200 << 20),
    )
    for name, size in (("no bytes", 0), ("16 KiB", 16 << 10), ("1 MiB", 1 << 20), ("the limit", (64 << 20) - 64))
]

THEMES = {
    "work": WORK,
    "flow": FLOW,
    "frames": FRAMES,
    "objects": OBJECTS,
    "store": STORE,
    "serving": SERVING,
    "strangers": STRANGERS,
}
ROWS = {row.name: row for rows in THEMES.values() for row in rows}
