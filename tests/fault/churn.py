"""A client that comes, does a bit of everything and goes: churn.py ADDRESS SEED. Works until standard input ends, or
until it is killed, whatever it is at. What it makes is named after its seed, so that the next one with it cleans up.
"""

import contextlib
import faulthandler
import queue
import random
import sys
import threading

import grpc

from gluond.v1 import (
    checkpoint_pb2,
    command_pb2,
    custom_operator_pb2,
    dataset_pb2,
    graph_pb2,
    model_pb2,
    operator_pb2,
    parameters_pb2,
    tensor_pb2,
)
from tests.fault import http2
from tests.fault.attack_work import define, filled, step
from tests.fault.peer import Peer, Session

PATIENCE = 60.0  # Seconds that an answer may take, and the end.


class Client:
    def __init__(self, peer, address, seed):
        self.peer, self.address, self.name = peer, address, f"churn{seed}"
        self.rng = random.Random()

    def session(self):
        """Arrays, a gradient, a graph, an error; ends in one of two ways."""
        session = Session(self.peer, PATIENCE)
        session.send(
            {"put": command_pb2.Command.Put(array=1, tensor=filled(self.rng.randrange(1, 1_000_000)))},
            {"mark": command_pb2.Command.Mark(arrays=[command_pb2.Command.Mark.Marked(variable=1, gradient=2)])},
            {"prepare": command_pb2.Command.Prepare(call=1, op="sin")},
        )
        for n in range(3, 20):
            session.send(
                {"invoke": command_pb2.Command.Invoke(call=1, inputs=[n - 1 if n > 3 else 1], outputs=[n], recording=True)}
            )
        session.send({"backward": command_pb2.Command.Backward(heads=[19])})
        session.send({"invoke": command_pb2.Command.Invoke(call=9, inputs=[1], outputs=[30])})  # Not prepared: fails.
        session.answer(fetch=command_pb2.Command.Fetch(arrays=[2]))
        if self.rng.random() < 0.5:
            session.close()
        else:
            session.responses.cancel()

    def model(self):
        define(self.peer, self.name, 256, 256)
        data = step(self.name, 64, 256, 256).SerializeToString()
        for call in [self.peer.start("TrainingService/TrainStep", data) for _ in range(8)]:
            call.result()
        self.peer.call("ModelService/Predict", model_pb2.PredictRequest(model=self.name, inputs={"data": filled(1000, 256)}))

    def uploads(self):
        define(self.peer, self.name, 256, 256)
        data = bytes(256 * 256 * 4)
        half = tensor_pb2.Chunk(data=data[: len(data) // 2])
        for chunk in (half, tensor_pb2.Chunk(offset=len(half.data), data=data[len(half.data) :]))[: self.rng.randrange(1, 3)]:
            self.peer.call(
                "ModelService/UploadParameter",
                parameters_pb2.UploadParameterRequest(
                    model=self.name,
                    parameter="weight",
                    shape=[256, 256],
                    chunk=chunk,
                    call={"client_id": self.name},
                    restart=not chunk.offset,
                ),
            )
        column = dataset_pb2.Column(name="data", shape=[2 * len(half.data) // 4])
        self.peer.call(
            "TrainingService/UploadDataset",
            dataset_pb2.UploadDatasetRequest(
                dataset=self.name, columns=[column], column="data", chunk=half, restart=True, call={"client_id": self.name}
            ),
        )

    def saves(self):
        define(self.peer, self.name, 256, 256)
        self.peer.call("ModelService/SaveCheckpoint", checkpoint_pb2.SaveCheckpointRequest(model=self.name, overwrite=True))
        self.peer.call("ModelService/LoadCheckpoint", model_pb2.LoadCheckpointRequest(checkpoint=self.name, replace=True))
        self.peer.call("ModelService/ListCheckpoints")

    def operator(self):
        """Computes an operator for a session of its own, until it has enough of it."""
        with Peer(self.address) as peer:
            host, session = Host(peer, f"operators-of-{self.name}"), Session(peer, PATIENCE, f"operators-of-{self.name}")
            session.send(
                {"put": command_pb2.Command.Put(array=1, tensor=filled(1000))},
                {"prepare": command_pb2.Command.Prepare(call=1, op="Custom", custom=host.custom)},
            )
            for n in range(2, 20):
                session.send({"invoke": command_pb2.Command.Invoke(call=1, inputs=[n - 1], outputs=[n])})
            if self.rng.random() < 0.7:
                session.answer(fetch=command_pb2.Command.Fetch(arrays=[19]))

    def rudeness(self):
        """A call in parts, broken off; a failure; a reply not read."""
        with http2.Connection(self.address) as connection:
            connection.ask("OperatorService/Invoke", operator_pb2.InvokeRequest(op="relu", inputs=[filled(1_000_000)]))
            stream = connection.open("SessionService/Run")
            connection.send(http2.frame(http2.DATA, 0, stream, http2.message(bytes(1000))[:500]))
        with contextlib.suppress(grpc.RpcError):
            self.peer.call("ModelService/GetModel", model_pb2.GetModelRequest(model="nobody"))

    def clean(self):
        for service, kind, request in (
            ("ModelService", "Model", model_pb2.DeleteModelRequest(model=self.name)),
            ("TrainingService", "Dataset", dataset_pb2.DeleteDatasetRequest(dataset=self.name)),
            ("ModelService", "Checkpoint", checkpoint_pb2.DeleteCheckpointRequest(checkpoint=self.name)),
        ):
            with contextlib.suppress(grpc.RpcError):
                self.peer.call(f"{service}/Delete{kind}", request)


class Host:
    """A stream of HostOperators: answers each callback with its argument."""

    def __init__(self, peer, scope):
        self.custom = graph_pb2.CustomOperatorSpec(op_type="same", arguments=["data"], same_shape=True, same_dtype=True)
        pb, self._requests = custom_operator_pb2, queue.SimpleQueue()
        self._requests.put(pb.HostRequest(open=pb.OpenHost(scope=scope)))
        self._requests.put(pb.HostRequest(offer=pb.OfferOperator(op_type="same")))
        stream = peer.stream("/gluond.v1.OperatorService/HostOperators", pb.HostResponse)
        self._responses = stream(iter(self._requests.get, None), timeout=PATIENCE)
        while not next(self._responses).offered:
            pass
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self):
        pb = custom_operator_pb2
        with contextlib.suppress(grpc.RpcError):
            for response in self._responses:
                for callback in response.callbacks:
                    self._requests.put(
                        pb.HostRequest(
                            result=pb.CallbackResult(
                                call=callback.call, computed=pb.CallbackResult.Computed(outputs=callback.forward.arguments)
                            )
                        )
                    )


def main():
    address, seed = sys.argv[1:]
    ended = threading.Event()

    def wait():
        sys.stdin.read()
        ended.set()
        faulthandler.dump_traceback_later(PATIENCE, exit=True)  # Tells what it is at, should it not end.

    threading.Thread(target=wait, daemon=True).start()
    with Peer(address) as peer:
        client = Client(peer, address, seed)
        client.clean()
        while not ended.is_set():
            try:
                client.rng.choice((client.session, client.model, client.uploads, client.saves, client.operator, client.rudeness))()
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                ended.wait(1)  # Those that were killed hold their share until their leases end.
        client.clean()


if __name__ == "__main__":
    main()
