"""A budget for what the compiler reads: it is most of a build's time, and each include that a header has, many files read.

`tests/headers.py --budget` prints the table for what is there now, and `--worst` what would make it smaller. A number that has
become smaller is lowered here; a number that has to grow wants a reason in its commit.
"""

import os
import pathlib
import tempfile
import unittest

from tests import case_runner
from tests.headers import Headers, Row, room_of

ROOT = pathlib.Path(os.path.realpath(__file__)).parent.parent

# The most by room: files that read gRPC's headers; files that read protobuf's; headers of our messages, over all files; the median
# and the maximum of our own headers in a file.
BUDGET = {
    "client/cli": Row(5, 5, 8, 6, 23),
    "client/cpp": Row(26, 31, 449, 12, 31),
    "client/python": Row(2, 0, 0, 4, 4),
    "engine/compile": Row(0, 0, 0, 24, 25),
    "engine/core": Row(0, 0, 0, 8, 17),
    "engine/imperative": Row(0, 0, 0, 37, 43),
    "engine/nn": Row(0, 0, 0, 31, 52),
    "engine/passes": Row(0, 0, 0, 20, 23),
    "engine/runtime": Row(0, 0, 0, 11, 43),
    "engine/store": Row(0, 0, 0, 50, 58),
    "engine/train": Row(0, 0, 0, 18, 60),
    "ops": Row(0, 0, 0, 30, 37),
    "ops/kernel": Row(0, 0, 0, 21, 30),
    "ops/library": Row(0, 0, 0, 18, 21),
    "server": Row(8, 8, 120, 141, 201),
    "server/codec": Row(7, 16, 57, 17, 53),
    "server/config": Row(0, 2, 0, 5, 5),
    "server/custom": Row(7, 9, 17, 24, 72),
    "server/durable": Row(6, 3, 14, 105, 107),
    "server/follow": Row(4, 4, 12, 101, 111),
    "server/group": Row(11, 10, 66, 68, 127),
    "server/hosted": Row(4, 4, 25, 70, 77),
    "server/identity": Row(2, 0, 0, 5, 17),
    "server/net": Row(7, 0, 0, 6, 9),
    "server/rpc": Row(16, 13, 22, 11, 73),
    "server/services": Row(21, 22, 143, 116, 135),
    "server/serving": Row(6, 6, 22, 66, 123),
    "server/session": Row(14, 15, 211, 76, 127),
    "server/sight": Row(2, 2, 7, 7, 152),
    "server/start": Row(2, 0, 0, 2, 5),
    "server/wire": Row(7, 5, 2, 4, 9),
}


class HeadersTest(unittest.TestCase):
    def test_each_room_keeps_to_its_budget(self):
        rows = Headers(ROOT).rows()
        self.assertEqual(sorted(rows), sorted(BUDGET), "each room has a budget")
        for room, row in rows.items():
            for field, most, is_ in zip(Row._fields, BUDGET[room], row):
                with self.subTest(room=room, field=field):
                    self.assertLessEqual(is_, most, "see tests/headers.py --worst")

    def test_gRPC_and_messages_are_the_wires(self):
        for room, row in BUDGET.items():
            if room.startswith(("engine", "ops")):
                self.assertEqual((row.grpc, row.protobuf, row.messages), (0, 0, 0), room)

    def test_a_header_that_includes_more_is_seen_in_all_files_that_read_it(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {
                "server/rpc/a.h": '#include "server/rpc/b.h"\n#  include <string>\n',
                "server/rpc/b.h": "",
                "server/rpc/c.h": '#include "v1/model.pb.h"\n#include "server/rpc/a.h"\n',
                "server/rpc/one.cc": '#include "server/rpc/a.h"\n',
                "server/rpc/two.cc": '#include "server/rpc/c.h"\n',
                "server/main.cc": '// #include "server/rpc/c.h"\n#include "v1/model.grpc.pb.h"\n',
                "proto/v1/model.proto": 'import "v1/tensor.proto";\n',
                "proto/v1/tensor.proto": "",
            }.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            rows = Headers(root).rows()
            self.assertEqual(rows["server/rpc"], Row(grpc=0, protobuf=1, messages=2, median=3, most=3))
            self.assertEqual(rows["server"], Row(grpc=1, protobuf=1, messages=3, median=0, most=0))
            self.assertEqual(Headers(root).counts("server/rpc/one.cc"), (2, False, False, 0))

    def test_a_folder_below_a_room_is_the_rooms(self):
        self.assertEqual(
            [room_of(path) for path in ("ops/relu.cc", "ops/kernel/cpu/gemm.cc", "server/net/a/b.cc", "server/main.cc")],
            ["ops", "ops/kernel", "server/net", "server"],
        )


if __name__ == "__main__":
    case_runner.main()
