"""The client whose work no attack may disturb: a process of its own, so that no attacker's interpreter stops its clock.

    bystander.py ADDRESS          works until standard input ends
    bystander.py ADDRESS --steps=N  takes N steps
    bystander.py ADDRESS --saves    saves its model after every eighth step

It trains a small network by batches of 200 KB, and invokes an operator, in turn, on one connection; on another one it
asks for the server's health and info. Prints `ready` once it is at work, and at its end one line of JSON (see Report).
"""

import argparse
import array
import collections
import dataclasses
import hashlib
import json
import os
import random
import struct
import sys
import threading
import time

from google.protobuf import json_format
import grpc

from gluond.v1 import (
    checkpoint_pb2,
    graph_pb2,
    model_pb2,
    operator_pb2,
    parameters_pb2,
    server_pb2,
    tensor_pb2,
    trainer_pb2,
    training_pb2,
)
from tests.fault.peer import HEALTH, Peer, told

ROWS, COLUMNS, CLASSES, BATCHES = 64, 784, 10, 8
PATIENCE = 60.0  # Seconds that a call may take: a long wait is a figure, not an error.
PAUSE = 0.005
SERVING = b"\x08\x01"


@dataclasses.dataclass
class Report:
    steps: int = 0
    waits: list = dataclasses.field(default_factory=list)  # Round trips in seconds, in order.
    errors: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    health_waits: list = dataclasses.field(default_factory=list)
    health_errors: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    bits: str = ""  # Every step's loss, and the parameters at the end.


def tensor(shape, values):
    return tensor_pb2.Tensor(shape=shape, raw=array.array("f", values).tobytes())


class Bystander:
    def __init__(self, address, saves=False):
        self.report, self._saves = Report(), saves
        self._address, self._end, self._is_watching = address, threading.Event(), threading.Event()
        self._client = f"bystander-{os.getpid()}"  # Numbers outlive a model.
        self._peer, self._losses = Peer(address), hashlib.sha256()
        rng = random.Random(1)
        self._batches = [
            {
                "data": tensor([ROWS, COLUMNS], (rng.random() for _ in range(ROWS * COLUMNS))),
                "label": tensor([ROWS], (rng.randrange(CLASSES) for _ in range(ROWS))),
            }
            for _ in range(BATCHES)
        ]
        self._invoke = operator_pb2.InvokeRequest(
            op="softmax", inputs=[tensor([16, 16], (rng.random() for _ in range(256)))]
        ).SerializeToString()
        self._expected = None

    def set_up(self):
        net = json_format.ParseDict(
            {
                "block": "HybridSequential",
                "children": [
                    {"block": "Dense", "attributes": {"units": 64, "activation": "relu"}},
                    {"block": "Dense", "attributes": {"units": CLASSES}},
                ],
            },
            graph_pb2.Block(),
        )
        self._peer.call(
            "ModelService/DefineModel",
            model_pb2.DefineModelRequest(
                model="bystander", block=net, variables=[graph_pb2.Variable(name="data", shape=[ROWS, COLUMNS])], replace=True
            ),
        )
        self._peer.call(
            "ModelService/InitializeParameters",
            parameters_pb2.InitializeParametersRequest(model="bystander", initializer=graph_pb2.Component(name="Xavier")),
        )
        self._peer.call(
            "TrainingService/CreateTrainer",
            trainer_pb2.CreateTrainerRequest(
                model="bystander",
                loss=graph_pb2.Component(name="SoftmaxCrossEntropyLoss"),
                optimizer=graph_pb2.Component(name="adam"),
            ),
        )

    def _timed(self, name, request):
        """The answer, or None after an error, which is counted."""
        begin = time.perf_counter()
        try:
            return self._peer.call(name, request, PATIENCE)
        except grpc.RpcError as error:
            self.report.errors[told(error)] += 1
            time.sleep(0.05)
            return None
        finally:
            self.report.waits.append(time.perf_counter() - begin)

    def _round(self):
        step = self.report.steps + 1
        answer = self._timed(
            "TrainingService/TrainStep",
            training_pb2.TrainStepRequest(
                model="bystander", inputs=self._batches[step % BATCHES], call={"client_id": self._client, "sequence": step}
            ),
        )
        if answer is not None:  # Otherwise the same number again.
            self.report.steps = step
            self._losses.update(struct.pack("<d", training_pb2.TrainStepResponse.FromString(answer).loss))
            if self._saves and step % 8 == 0:
                self._timed("ModelService/SaveCheckpoint", checkpoint_pb2.SaveCheckpointRequest(model="bystander", overwrite=True))
        outputs = self._timed("OperatorService/Invoke", self._invoke)
        self._expected = self._expected or outputs
        if outputs not in (None, self._expected):
            self.report.errors["Invoke gave other values"] += 1

    def work(self, steps):
        for _ in range(4):  # Compiles, and warms up; counts as steps, but not as waits.
            self._round()
        self.report.waits.clear()
        threading.Thread(target=self._watch_health, daemon=True).start()
        self._is_watching.wait()  # A connection that comes with a flood is one of its network's newest, and may have to go.
        print("ready", flush=True)
        if not steps:
            threading.Thread(target=lambda: (sys.stdin.read(), self._end.set()), daemon=True).start()
        while not self._end.is_set() and (not steps or self.report.steps < steps):
            self._round()
            if not steps:
                time.sleep(PAUSE)

    def _watch_health(self):
        with Peer(self._address) as peer:
            while not self._end.is_set():
                begin = time.perf_counter()
                try:
                    if peer.call(HEALTH, timeout=PATIENCE) != SERVING:
                        self.report.health_errors["NOT_SERVING"] += 1
                    peer.call("ServerService/GetServerInfo", server_pb2.GetServerInfoRequest(), PATIENCE)
                except grpc.RpcError as error:
                    self.report.health_errors[told(error)] += 1
                self.report.health_waits.append(time.perf_counter() - begin)
                self._is_watching.set()
                time.sleep(0.05)

    def finish(self):
        """Reads the parameters, and asks as a newcomer whether the server is still there."""
        self._end.set()
        try:
            answer = self._peer.call(
                "ModelService/GetParameters",
                parameters_pb2.GetParametersRequest(model="bystander", encoding=tensor_pb2.Tensor.RAW),
                PATIENCE,
            )
            values = parameters_pb2.GetParametersResponse.FromString(answer).parameters
            for name in sorted(values):
                self._losses.update(name.encode() + values[name].raw)
            self.report.bits = self._losses.hexdigest()
            with Peer(self._address) as newcomer:
                newcomer.call("OperatorService/Invoke", self._invoke, PATIENCE)
        except grpc.RpcError as error:
            self.report.errors[f"at the end: {told(error)}"] += 1
        return self.report


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--saves", action="store_true")
    options = parser.parse_args()
    bystander = Bystander(options.address, options.saves)
    bystander.set_up()
    bystander.work(options.steps)
    print(json.dumps(vars(bystander.finish())), flush=True)


if __name__ == "__main__":
    main()
