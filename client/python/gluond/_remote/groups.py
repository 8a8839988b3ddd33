"""Groups of servers: several of them train one model, as if they were one larger device (`gluond serve --group`)."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional

from .._proto import group_pb2
from ..base import MXNetError
from . import calls, methods

__all__ = ["GroupDescription", "GroupMember", "Placement", "group"]


class Placement(NamedTuple):
    """Where a model is trained: by a group of servers. virtual_shards: the parts into which the rows of a batch are cut. Equal
    numbers give equal bits, however many servers compute."""

    virtual_shards: int


class GroupMember(NamedTuple):
    """A process of a group. member: its number; 0 is the leader. place: 'PREPARING' (it gets what it needs), 'WAITING' (for the
    next generation), 'RANK' (it computes) or 'SPARE' (it follows). applied: the last change that it has applied. silent: seconds
    since its last word. waited: the mean of the seconds for which it waited for others in recent steps, so that the slowest rank
    has the least; None: there were no steps."""

    member: int
    name: str
    place: str
    applied: int
    silent: float
    waited: Optional[float]
    is_leaving: bool


class GroupDescription(NamedTuple):
    """A group of servers. generation: the number of its ring; 0: none has formed yet. members: all processes, the leader first.
    min, max: the fewest processes with which steps run, and the most. applied: the last change of a model of the group. steps:
    those that its leader has applied. pause: seconds for which no step could run before the last generation began. why_not: why
    no step runs; empty: steps run."""

    generation: int
    members: List[GroupMember]
    min: int
    max: int
    applied: int
    steps: int
    steps_per_second: float
    rows_per_second: float
    pause: float
    why_not: str


def requested(group: bool, virtual_shards: Optional[int]) -> Any:
    """The Placement of a model to be made; None: by one server. MXNetError: parts without a group."""
    if group:
        return group_pb2.Placement(group=True, virtual_shards=virtual_shards)
    if virtual_shards is not None:
        raise MXNetError(f"virtual_shards={virtual_shards} are the parts of a batch in a group of servers; give group=True as well")
    return None


def placement_of(proto: Any) -> Optional[Placement]:
    """The placement of a Model; None: by one server."""
    return Placement(proto.placement.virtual_shards) if proto.placement.group else None


def _seconds(duration: Any) -> float:
    return float(duration.seconds + duration.nanos * 1e-9)


def _member(proto: Any) -> GroupMember:
    return GroupMember(
        proto.member,
        proto.name,
        group_pb2.GroupMember.Place.Name(proto.place),
        proto.applied,
        _seconds(proto.silent),
        _seconds(proto.waited) if proto.HasField("waited") else None,
        proto.is_leaving,
    )


def group() -> GroupDescription:
    """The group that the server leads, as it is now.

        slowest = min((each for each in mx.remote.group().members if each.waited is not None), key=lambda each: each.waited)

    CallError (FAILED_PRECONDITION): the server leads no group. `gluond serve --group` starts one that does.
    """
    proto = calls.current().call(methods.GET_GROUP, group_pb2.GetGroupRequest())
    return GroupDescription(
        proto.generation,
        [_member(each) for each in proto.members],
        proto.min,
        proto.max,
        proto.applied,
        proto.steps,
        proto.steps_per_second,
        proto.rows_per_second,
        _seconds(proto.pause),
        proto.why_not,
    )
