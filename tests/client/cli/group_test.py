"""`gluond group`: what a leader tells of its group, and a server that leads none."""

from concurrent import futures
import json
import pathlib
import random
import struct
import subprocess
import tempfile
import time
import unittest

import grpc

from gluond.v1 import group_pb2, group_pb2_grpc, model_pb2, model_pb2_grpc, server_pb2, server_pb2_grpc
from tests import case_runner
from tests.server.group_servers import GroupServers, kill
from tests.server.running_server import RunningServer

_BIN = pathlib.Path("client/cli/gluond")
GROUP = group_pb2.GetGroupResponse(generation=2, min=1, max=2, applied=7, steps=6, why_not="the ring forms")
GROUP.members.add(member=0, name="first", place=group_pb2.GroupMember.RANK, applied=7)
GROUP.members.add(member=1, name="second", place=group_pb2.GroupMember.RANK, applied=5)
MODEL = model_pb2.Model(name="lenet", device="cpu", placement=group_pb2.Placement(group=True, virtual_shards=8))


def run(address, *arguments, status=0):
    """The command's output, the server's address being an option."""
    result = subprocess.run([_BIN, *arguments, f"--address={address}"], capture_output=True, text=True, timeout=120, check=False)
    if result.returncode != status:
        raise AssertionError(f"{arguments} ended with {result.returncode}, expected {status}: {result.stderr}")
    return result.stdout + result.stderr


class Leader(group_pb2_grpc.GroupServiceServicer, server_pb2_grpc.ServerServiceServicer, model_pb2_grpc.ModelServiceServicer):
    """A server that tells of GROUP and MODEL, and lets member 1 leave."""

    def __init__(self):
        self.drained = []

    def GetServerInfo(self, request, context):
        return server_pb2.GetServerInfoResponse(protocol=2)

    def GetGroup(self, request, context):
        return GROUP

    def DrainMember(self, request, context):
        if request.member != 1:
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no member {request.member}")
        self.drained.append(request.member)
        return group_pb2.DrainMemberResponse()

    def GetModel(self, request, context):
        return model_pb2.GetModelResponse(model=MODEL)


class LeaderTest(unittest.TestCase):
    def setUp(self):
        self.leader = Leader()
        server = grpc.server(futures.ThreadPoolExecutor(2))
        group_pb2_grpc.add_GroupServiceServicer_to_server(self.leader, server)
        server_pb2_grpc.add_ServerServiceServicer_to_server(self.leader, server)
        model_pb2_grpc.add_ModelServiceServicer_to_server(self.leader, server)
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        self.addCleanup(server.stop, 0)

    def test_a_group_is_a_table_and_json(self):
        text = run(self.address, "group")
        self.assertIn("generation 2: 2 processes are there, steps run with 1 to 2\n", text)
        self.assertIn("no step runs: the ring forms\n", text)
        self.assertRegex(text, r"(?m)^1 +second +RANK +2 ")
        self.assertEqual(run("127.0.0.1:1", "group", self.address), text, "an argument counts in the place of --address")
        told = json.loads(run(self.address, "group", "--json"))
        self.assertEqual((told["generation"], [each["name"] for each in told["members"]]), ("2", ["first", "second"]))

    def test_a_member_leaves(self):
        self.assertEqual(run(self.address, "group", "drain", "1"), "member 1 leaves after the step under way\n")
        self.assertEqual(self.leader.drained, [1])
        self.assertIn("there is no member 9", run(self.address, "group", "drain", "9", status=1))

    def test_wrong_command_lines_are_told_what_to_do(self):
        for member in ((), ("first",)):
            self.assertIn("which `gluond group` lists", run(self.address, "group", "drain", *member, status=2))
        self.assertIn("`drain` before it", run(self.address, "group", self.address, "1", status=2))
        self.assertEqual(self.leader.drained, [])
        self.assertIn(
            "--virtual_shards is 8; want a power of two, with --group", run(self.address, "train", "--virtual_shards=8", status=1)
        )

    def test_a_model_tells_its_placement(self):
        self.assertIn(", by a group of servers in 8 virtual shards\n", run(self.address, "models", "lenet"))


def write_images(folder, name, count):
    """Labelled images of MNIST's form."""
    rng = random.Random(count)
    pixels = bytes(rng.randrange(256) for _ in range(28 * 28)) * count
    labels = bytes(rng.randrange(10) for _ in range(count))
    (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, count, 28, 28) + pixels)
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + labels)


class TrainTest(unittest.TestCase):
    def lose_the_member(self, group, member, trains):
        """Takes the only other process away in the middle of the training, and brings it back."""
        while self.steps(group) < 200 and trains.poll() is None:
            time.sleep(0.01)
        kill(member)
        self.assertIsNone(trains.poll(), "the training was over before")
        time.sleep(3)
        member.start()

    def steps(self, group):
        with grpc.insecure_channel(group.leader.address) as channel:
            try:
                models = model_pb2_grpc.ModelServiceStub(channel)
                return models.GetModel(model_pb2.GetModelRequest(model="mlp"), timeout=60).model.step
            except grpc.RpcError:
                return 0

    def test_it_waits_for_the_member_that_died(self):
        with tempfile.TemporaryDirectory() as name, GroupServers(most=2, least=2) as group:
            folder = pathlib.Path(name) / "toy"
            folder.mkdir()
            write_images(folder, "train", 2000)
            write_images(folder, "t10k", 20)
            member = group.add_member()
            words = [_BIN, "train", "--group", "--recipe=mlp", f"--data={folder}", "--batch_size=10", "--epochs=5", "--curve=-"]
            words += ["--checkpoint=-", "--wait=1m", f"--address={group.leader.address}"]
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as trains:
                self.lose_the_member(group, member, trains)
                said = trains.communicate(timeout=120)[0]
            self.assertEqual(trains.returncode, 0, said)
            self.assertEqual(self.steps(group), 1000)


class NoGroupTest(unittest.TestCase):
    def test_a_server_that_leads_none_says_how_one_would(self):
        with RunningServer() as server:
            self.assertIn("--group", run(server.address, "group", status=1))
            self.assertIn("--group", run(server.address, "group", "drain", "1", status=1))


if __name__ == "__main__":
    case_runner.main()
