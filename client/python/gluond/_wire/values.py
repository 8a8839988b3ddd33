"""The class of attributes' values on the wire: google.protobuf.Value, as these messages have it."""

from __future__ import annotations

from .._proto import graph_pb2

Value = type(graph_pb2.Node().attributes[""])
