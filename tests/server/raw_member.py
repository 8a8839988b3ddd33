"""A member of a group that answers only what a test tells it to."""

import threading

import grpc

from gluond.v1 import group_pb2


class RawMember:
    """A Join by hand, which answers what it is told to, and nothing else."""

    def __init__(self, group, process):
        self._messages = []
        self._changed = threading.Condition()
        self._ends = False
        join = group.peer.stream("/gluond.v1.GroupService/Join", group_pb2.JoinResponse)
        self._answers = join(self._requests(), timeout=120)
        self.say(hello={"process": process, "fingerprint": fingerprint(group)})

    def _requests(self):
        while True:
            with self._changed:
                while not self._messages and not self._ends:
                    self._changed.wait()
                if not self._messages:
                    return
                message = self._messages.pop(0)
            yield message

    def say(self, **message):
        with self._changed:
            self._messages.append(group_pb2.JoinRequest(**message))
            self._changed.notify()

    def hear(self, kind):
        """The next message of a kind; others that come before are heartbeats and the parts of a state."""
        for answer in self._answers:
            if answer.WhichOneof("message") == "heartbeat":
                self.say(heartbeat={})
            if answer.WhichOneof("message") == kind:
                return getattr(answer, kind)
        raise AssertionError(f"Join ended before {kind}")

    def become_rank(self):
        """Takes part up to the forming of a ring, and answers nothing from there on."""
        self.hear("prepare")
        self.say(standing={})
        self.standing = self.hear("state").standing
        self.say(standing=self.standing)
        return self.hear("form")

    def beat_until_the_end(self):
        """Says that it is there, and nothing else. Returns the error with which the leader ends the Join."""
        try:
            for _ in self._answers:
                self.say(heartbeat={})
        except grpc.RpcError as error:
            return error
        raise AssertionError("Join ended without an error")

    def end(self):
        """Ends the Join, if the leader has not."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._answers.cancel()


def fingerprint(group):
    """What the leader wants to hear, as it tells those who say something else."""
    join = group.peer.stream("/gluond.v1.GroupService/Join", group_pb2.JoinResponse)
    ends = threading.Event()

    def requests():
        yield group_pb2.JoinRequest(hello={"process": 1, "fingerprint": "unknown"})
        ends.wait()

    try:
        list(join(requests(), timeout=30))
    except grpc.RpcError as error:
        return error.details().split("the leader is '")[1].split("'")[0]
    finally:
        ends.set()
    raise AssertionError("the leader has taken a stranger")
