"""Kills, stops and starts servers of a group, and cuts their connections, at random moments while it trains. Then its bits are compared
with those of one process that nobody disturbed.

usage: python3 -m tests.server.group_kills [--faults N] [--seed N] [--members N] [--steps N]

The client numbers its steps. When the leader has died, and the next one has gone back to its last live checkpoint, the client
repeats the steps from there.
"""

import argparse
import random
import signal
import sys
import threading
import time

import grpc

from gluond.v1 import training_pb2
from tests.server.group_processes import GroupOfServers, batches, layer
from tests.server.group_servers import cut, kill

NET = layer(
    "HybridSequential",
    layer("Dense", units=32, activation="relu"),
    layer("BatchNorm"),
    layer("Dropout", rate=0.3),
    layer("Dense", units=4),
)
SHAPE, SHARDS, BATCHES, CLIENT = [12, 16], 4, 16, "group-test"
KINDS = ["kill a member", "stop a member", "kill the leader", "a member leaves", "cut a connection"]
PATIENCE = 120  # Seconds for one step to be taken, whatever dies meanwhile.


class Disturber(threading.Thread):
    """Disturbs a group until so many faults have happened; `faults` counts them by kind."""

    def __init__(self, group, faults, rng):
        super().__init__()
        self._group, self._left, self._rng = group, faults, rng
        self.faults, self.error = {}, None

    def run(self):
        try:
            while self._left > 0:
                time.sleep(self._rng.uniform(0.02, 0.4))
                kind = self._rng.choices(KINDS, [5, 3, 2, 2, 4])[0]
                self.faults[kind] = self.faults.get(kind, 0) + 1
                self._left -= 1
                self._disturb(kind)
        except Exception as error:  # Told by the thread that waits.
            self.error = error

    def _disturb(self, kind):
        if kind == "kill the leader":
            kill(self._group.leader)
            time.sleep(self._rng.uniform(0, 0.3))
            return self._group.leader.start()
        members = self._group.members
        if kind == "cut a connection":
            return cut(self._rng.choice([self._group.leader, *members]), self._rng)
        member = members.pop(self._rng.randrange(len(members)))
        if kind == "stop a member":
            kill(member, signal.SIGSTOP)
            time.sleep(self._rng.uniform(0.1, 2.5))  # The timeout is a second.
            kill(member, signal.SIGCONT)
            members.append(member)
            return None
        kill(member, signal.SIGKILL if kind == "kill a member" else signal.SIGTERM)
        member.process.wait(60)
        time.sleep(self._rng.uniform(0, 0.5))
        return self._group.add_member()


def last_step(group):
    """The number of the last step that the leader has; after its death an earlier one perhaps."""
    request = training_pb2.GetSequenceRequest(client_id=CLIENT, model="net")
    return training_pb2.GetSequenceResponse.FromString(group.peer.call("TrainingService/GetSequence", request)).last


def train(group, steps, goes_on=lambda: False, number=1):
    """Takes the steps from `number` to so many, and more while it goes on; returns their number, and how often the client went back."""
    data, rewinds = batches(SHAPE, BATCHES), 0
    deadline = time.monotonic() + PATIENCE
    while number <= steps or goes_on():
        try:
            group.step("net", data[number % BATCHES], number, timeout=PATIENCE)
            number += 1
        except grpc.RpcError:
            time.sleep(0.02)
            try:
                at = last_step(group) + 1
            except grpc.RpcError:  # The leader is away.
                if time.monotonic() > deadline:
                    raise
                continue
            rewinds += at < number
            if at == number and time.monotonic() > deadline:
                raise
            number = at
            continue
        deadline = time.monotonic() + PATIENCE
    return number - 1, rewinds


def disturbed(faults, seed, members, steps):
    """(steps, bits, faults by kind, rewinds)."""
    rng = random.Random(seed)
    with GroupOfServers(most=members + 1, timeout="1s", leader_flags=["--checkpoint_every=5steps"]) as group:
        for _ in range(members):
            group.add_member()
        group.define("net", NET, SHAPE, SHARDS, "adam", learning_rate=0.01)
        disturber = Disturber(group, faults, rng)
        disturber.start()
        try:
            taken, rewinds = train(group, steps, disturber.is_alive)
        finally:
            disturber.join()
        if disturber.error is not None:
            raise disturber.error
        # The last fault may have taken the last steps back.
        taken, more = train(group, taken + 1, number=taken + 1)
        rewinds += more
        return taken, group.bits("net"), disturber.faults, rewinds


def undisturbed(steps):
    with GroupOfServers(most=SHARDS) as group:
        group.define("net", NET, SHAPE, SHARDS, "adam", learning_rate=0.01)
        train(group, steps)
        return group.bits("net")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("faults", 300), ("seed", 1), ("members", 3), ("steps", 50)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    taken, bits, faults, rewinds = disturbed(options.faults, options.seed, options.members, options.steps)
    print(f"{taken} steps, {rewinds} times back to a checkpoint; {faults}", flush=True)
    if bits != undisturbed(taken):
        sys.exit("the bits differ from those of a group of one that nobody disturbed")
    print("the bits are those of a group of one that nobody disturbed")


if __name__ == "__main__":
    main()
