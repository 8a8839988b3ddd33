"""Members of a group have copies of the datasets that it trains on, and steps name their rows."""

import time
import unittest

from gluond.v1 import dataset_pb2, training_pb2
from tests import case_runner
from tests.server.group_processes import GroupOfServers, batches, layer
from tests.server.group_servers import kill

DENSE = layer("HybridSequential", layer("Dense", units=16, activation="relu"), layer("Dense", units=4))
ROWS, WIDTH = 300, 2000  # 2.4 MB: copied in three parts.
BYTES = 4 * ROWS * (WIDTH + 1)
STEP = training_pb2.TrainStepRequest(
    model="net", rows=dataset_pb2.Rows(dataset="toy", shuffle=True, seed=3), batch_size=32, drop_last=True
)


def upload(group, name="toy", seed=1):
    rows = batches([ROWS, WIDTH], 1, seed)[0]
    request = dataset_pb2.UploadDatasetRequest(dataset=name, tensors=rows, commit=True)
    group.peer.call("TrainingService/UploadDataset", request)


def train(group, epoch):
    request = training_pb2.TrainStepRequest()
    request.CopyFrom(STEP)
    request.rows.epoch = epoch
    group.peer.call("TrainingService/TrainStep", request, 60)


class GroupDatasetsTest(unittest.TestCase):
    def await_copies(self, group, expected):
        """Waits until the members have copies of so many bytes."""
        end = time.monotonic() + 60
        while True:
            copied = [member.copied_bytes for member in group.group().members[1:]]
            if copied == expected or time.monotonic() > end:
                return self.assertEqual(copied, expected)
            time.sleep(0.05)

    def trained(self, processes):
        """The values after some epochs, of which members have no copy in the first, and have one in the others."""
        with GroupOfServers(most=4) as group:
            for _ in range(processes - 1):
                group.add_member()
            group.await_ranks(processes)
            group.define("net", DENSE, [10, WIDTH], 4)
            upload(group)
            train(group, 0)
            self.await_copies(group, [BYTES] * (processes - 1))
            for epoch in (1, 2):
                train(group, epoch)
            return group.bits("net")

    def test_steps_are_the_same_with_copies_and_without(self):
        alone = self.trained(1)
        for processes in (2, 4):
            self.assertTrue(self.trained(processes) == alone, processes)  # Without a list of the bytes that differ.

    def test_copies_come_back_and_go(self):
        with GroupOfServers(most=2) as group:
            member = group.add_member()
            group.await_ranks(2)
            group.define("net", DENSE, [10, WIDTH], 4)
            upload(group)
            upload(group, "other", seed=2)
            train(group, 0)
            self.await_copies(group, [BYTES])  # Nobody trains on the other one.
            kill(member)
            member.start()
            group.await_ranks(2)
            self.await_copies(group, [BYTES])
            train(group, 1)
            delete = dataset_pb2.DeleteDatasetRequest(dataset="toy")
            group.peer.call("TrainingService/DeleteDataset", delete)
            self.await_copies(group, [0])
            upload(group, seed=4)
            train(group, 2)
            self.await_copies(group, [BYTES])
            train(group, 3)

    def test_a_member_without_room_is_sent_rows(self):
        with GroupOfServers(most=2) as group:
            group.add_member("--max_tensor_bytes=2000000")
            group.await_ranks(2)
            group.define("net", layer("HybridSequential", layer("Dense", units=4)), [10, WIDTH], 4)
            upload(group)
            train(group, 0)
            generation = group.group().generation
            for epoch in (1, 2):
                train(group, epoch)
            self.await_copies(group, [0])
            self.assertEqual(group.group().generation, generation, "the member has left")


if __name__ == "__main__":
    case_runner.main()
