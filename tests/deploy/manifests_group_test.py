"""A group, and a replica that follows, which start as deploy/kubernetes says."""

import os
import signal
import time

from gluond.v1 import group_pb2

from tests import case_runner
from tests.deploy import manifests
from tests.deploy.manifests_case import ManifestsCase
from tests.server.free_ports import free_ports
from tests.server.identity_fixture import STATUS


class GroupTest(ManifestsCase):
    def group(self):
        """What the leader tells of its group."""
        code, reply = self.ask(self.channel(self.leader, self.tls), "gluond.v1.GroupService/GetGroup", self.alice)
        self.assertEqual(code, STATUS.OK, reply)
        return group_pb2.GetGroupResponse.FromString(reply)

    def member(self, name, *more, **values):
        files = {"token": f"{self.members}\n", "ca.crt": (self.tls / "ca.pem").read_text()}
        self.secret(name, "group", files)
        here = {manifests.arguments(manifests.GROUP)["group"]: f"localhost:{self.leaders_port}", "$(POD_IP)": "127.0.0.1"}
        return self.pod(name, manifests.GROUP, *more, **here, **values)

    def setUp(self):
        super().setUp()
        self.members = self.token("members", "member")
        (self.leaders_port,) = free_ports(1)
        self.leader = self.member("gluond-0", **{"0.0.0.0:50051": f"0.0.0.0:{self.leaders_port}"})

    def test_pods_with_one_command_line_are_a_group(self):
        least, most = map(int, manifests.arguments(manifests.GROUP)["group_size"].split(":"))
        self.assertEqual((self.group().min, self.group().max, len(self.group().members)), (least, most, 1))
        # All are on one machine here, where an address cannot tell a member from the leader.
        others = [self.member(f"gluond-{i}", "--group_role=member", **{"0.0.0.0:50051": "0.0.0.0:0"}) for i in range(1, least)]
        for pod in (self.leader, *others):
            self.until(lambda pod=pod: self.is_ready(pod))
        self.until(lambda: len(self.group().members) == least)
        # A member leaves when its pod is ended, and well within the time that it has.
        os.kill(others[-1].process.pid, signal.SIGTERM)
        self.until(lambda: len(self.group().members) == least - 1)
        others[-1].process.communicate(timeout=manifests.pod(manifests.workload(manifests.GROUP))["terminationGracePeriodSeconds"])
        self.assertEqual(others[-1].process.returncode, 0)


class ReplicaTest(ManifestsCase):
    def test_a_replica_is_ready_and_stays_so_while_the_server_that_publishes_is_away(self):
        follower = self.token("serving", "follow")
        server = self.pod("gluond-0", manifests.CPU, **{"0.0.0.0:50051": "0.0.0.0:0"})
        self.secret("replica", "follow", {"token": f"{follower}\n", "ca.crt": (self.tls / "ca.pem").read_text()})
        here = {"0.0.0.0:50051": "0.0.0.0:0", "follow: gluond:50051": f"follow: {server.address}"}
        replica = self.pod("replica", manifests.SERVING, **here)
        self.until(lambda: self.is_ready(replica))
        self.assertEqual(self.ask(self.channel(replica, self.tls), self.INFO, self.alice)[0], STATUS.OK)
        server.process.kill()
        server.process.wait()
        time.sleep(1)
        self.assertTrue(self.is_ready(replica))
        self.assertEqual(self.ask(self.channel(replica, self.tls), self.INFO, self.alice)[0], STATUS.OK)


if __name__ == "__main__":
    case_runner.main()
