"""Published versions of models: what `Model.publish` makes, and other programs ask by the open inference protocol."""

from __future__ import annotations

import datetime
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Union

from .._proto import serving_pb2
from . import calls, methods

__all__ = ["VersionDescription", "retire", "route", "versions"]


class VersionDescription(NamedTuple):
    """A version. served: the name that is asked for. state: 'READY', 'LOADING', 'UNLOADING' or 'UNAVAILABLE', with the
    reason. weight: its part of the requests that name no version. requests: those that it has answered."""

    served: str
    version: int
    state: str
    reason: str
    labels: List[str]
    weight: int
    source: str
    source_version: int
    created: datetime.datetime
    bytes: int
    stored: bool
    max_batch_size: int
    requests: int


def described(proto: Any) -> VersionDescription:
    """The description of a ServedVersion."""
    created = datetime.datetime.fromtimestamp(proto.created.seconds, datetime.timezone.utc)
    return VersionDescription(
        proto.served,
        proto.version,
        serving_pb2.ServedVersion.State.Name(proto.state),
        proto.reason,
        list(proto.labels),
        proto.weight,
        proto.source,
        proto.source_version,
        created,
        proto.tensor_bytes,
        proto.stored,
        proto.options.max_batch_size,
        proto.requests,
    )


def publish(
    model: str,
    labels: Union[str, Sequence[str], None],
    served: Optional[str],
    max_batch_size: int,
    max_queue_delay: float,
    instances: int,
    device: Optional[str],
) -> VersionDescription:
    """As Model.publish."""
    several = [labels] if isinstance(labels, str) else list(labels or ())
    request = serving_pb2.PublishModelRequest(model=model, served=served or "", labels=several)
    options = request.options
    options.max_batch_size, options.instances, options.device = max_batch_size, instances, device or ""
    options.max_queue_delay_us = round(max_queue_delay * 1e6)
    return described(calls.current().apply(methods.PUBLISH_MODEL, request).version)


def versions(served: str = "") -> List[VersionDescription]:
    """The published versions, of one name or of all."""
    request = serving_pb2.ListVersionsRequest(served=served)
    return [described(each) for page in calls.current().pages(methods.LIST_VERSIONS, request) for each in page.versions]


def route(
    served: str, labels: Optional[Mapping[str, Optional[int]]] = None, weights: Optional[Mapping[int, int]] = None
) -> List[VersionDescription]:
    """Gives labels to versions (None: to none), and each version its part of the requests that name none. {}: ends the
    split. The next request is the first that sees it. Requests without a version get the label 'stable', where there is
    one and no split, else the newest.

        mx.remote.route("digits", labels={"stable": 3})             # A step forward, or back.
        mx.remote.route("digits", weights={3: 95, 4: 5})            # A few requests try the new one.
    """
    request = serving_pb2.RouteVersionsRequest(
        served=served, labels={k: v or 0 for k, v in (labels or {}).items()}, weights=weights or {}, clear_weights=weights == {}
    )
    return [described(each) for each in calls.current().call(methods.ROUTE_VERSIONS, request).versions]


def retire(served: str, version: int) -> None:
    """Ends a version for good, when its last request is answered. No label or weight may lead to it."""
    calls.current().delete(methods.RETIRE_VERSION, serving_pb2.RetireVersionRequest(served=served, version=version))
