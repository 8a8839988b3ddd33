"""Attacks on what serves: on published versions, and on the port where the metrics are."""

import contextlib
import itertools
import os
import socket
import threading
import time

from google.protobuf import json_format

from gluond.v1 import custom_operator_pb2, model_pb2, parameters_pb2, serving_pb2
from proto.inference import grpc_service_pb2
from tests.fault import http2
from tests.fault.attack_flow import HOST, connect, part
from tests.fault.attack_work import define, filled
from tests.fault.peer import Peer, Told, crowd, wait_for_all

INFER = "/inference.GRPCInferenceService/ModelInfer"
METRICS = "ATTACKED_METRICS"  # The variable by which an attacker, a process of its own, hears of that port.


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def metrics():
    """A server that shows its metrics, on a port which the attacker is told."""
    os.environ[METRICS] = str(free_port())
    try:
        yield {"flags": [f"--metrics_address=127.0.0.1:{os.environ[METRICS]}"]}
    finally:
        del os.environ[METRICS]


def scrapes(target):
    """Scrapes without a pause by half of the connections; the others send heads that never end."""
    told = Told()

    def scrape(whole):
        while time.monotonic() < target.end:
            try:
                with socket.create_connection(("127.0.0.1", int(os.environ[METRICS])), timeout=10) as connection:
                    connection.sendall(b"GET /metrics HTTP/1.0\r\n" + (b"\r\n" if whole else b"X-Slow: "))
                    while not whole and time.monotonic() < target.end:
                        connection.sendall(b"x" * 1000)
                        time.sleep(0.01)
                    while connection.recv(1 << 16):
                        pass
                told.note()
            except OSError as error:
                told.note(type(error).__name__)

    threads = [threading.Thread(target=scrape, args=(i % 2 == 0,), daemon=True) for i in range(target.connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, target.end + 2 - time.monotonic()))
    return told


def published(peer, model, units, columns, **options):
    define(peer, model, units, columns)
    peer.call(
        "ServingService/PublishModel", serving_pb2.PublishModelRequest(model=model, options=serving_pb2.ServingOptions(**options))
    )


def question(model, rows, columns):
    request = grpc_service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[bytes(4 * rows * columns)])
    request.inputs.add(name="data", datatype="FP32", shape=[rows, columns])
    return request


def inferences(target, at_once=64):
    """Questions to a version of a large layer, many at once on each connection."""
    begun = set()

    def ask(peer, told, i):
        model = f"inferences{i}"
        if i not in begun:
            published(peer, model, 1024, 1024, max_batch_size=64)
            begun.add(i)
        data = question(model, 64, 1024).SerializeToString()
        wait_for_all(told, [peer.start(INFER, data, target.seconds + 1) for _ in range(at_once)])

    return crowd(target, ask)


def shapes(target):
    """Questions of ever other numbers of rows: each shape wants a program of its own."""
    begun, rows = set(), itertools.count(1)

    def ask(peer, told, i):
        model = f"rows{i}"
        if i not in begun:
            published(peer, model, 64, 64)
            begun.add(i)
        wait_for_all(told, [peer.start(INFER, question(model, next(rows), 64), target.seconds + 1) for _ in range(16)])

    return crowd(target, ask)


def publications(target):
    """Versions without end, of which none is retired."""
    begun = set()

    def publish(peer, told, i):
        if i not in begun:
            define(peer, f"publications{i}", 512, 512)
            begun.add(i)
        request = serving_pb2.PublishModelRequest(model=f"publications{i}")
        wait_for_all(told, [peer.start("ServingService/PublishModel", request, target.seconds + 1) for _ in range(8)])

    return crowd(target, publish)


def silent_publishes(target):
    """Models that are published while they wait for the host of an operator of theirs, which reads and says nothing."""
    told = Told()
    hosts = connect(target, 1, told)
    host = hosts[0].open(HOST)
    for request in (
        custom_operator_pb2.HostRequest(open=custom_operator_pb2.OpenHost(scope="silent-publishes")),
        custom_operator_pb2.HostRequest(offer=custom_operator_pb2.OfferOperator(op_type="silent", shared=True)),
    ):
        hosts[0].send(http2.frame(http2.DATA, 0, host, http2.message(request)))
    with Peer(target.address) as peer:
        calls = []
        for i in range(target.connections):
            model = f"silent{i}"
            peer.call(
                "ModelService/DefineModel",
                json_format.ParseDict(
                    {
                        "model": model,
                        "replace": True,
                        "graph": {
                            "nodes": [
                                {"name": "fc", "op": "FullyConnected", "inputs": ["data"], "attributes": {"num_hidden": "3"}},
                                {
                                    "name": "wait",
                                    "op": "Custom",
                                    "inputs": ["fc"],
                                    "custom": {
                                        "op_type": "silent",
                                        "arguments": ["data"],
                                        "same_shape": True,
                                        "same_dtype": True,
                                        "shared": True,
                                    },
                                },
                            ]
                        },
                        "variables": [{"name": "data", "kind": "INPUT", "shape": [4, 8]}],
                    },
                    model_pb2.DefineModelRequest(),
                ),
            )
            peer.call(
                "ModelService/InitializeParameters",
                json_format.ParseDict(
                    {"model": model, "initializer": {"name": "xavier"}}, parameters_pb2.InitializeParametersRequest()
                ),
            )
            for name, request in (
                ("ModelService/Predict", model_pb2.PredictRequest(model=model, inputs={"data": filled(4, 8)})),
                ("ServingService/PublishModel", serving_pb2.PublishModelRequest(model=model)),
            ):
                calls.append(peer.start(name, request, target.seconds))
        wait_for_all(told, calls)
        return part(target, hosts, told)
