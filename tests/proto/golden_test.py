"""proto/ is what golden.txt says, and the check of changes finds those that would break old clients."""

import contextlib
import io
import pathlib
import shutil
import tempfile
import unittest

from tests import case_runner
from tests.proto import golden

PROTO = """syntax = "proto3";
package gluond.v1;
service Shop {
  rpc Buy(Order) returns (Receipt);
  rpc Watch(Order) returns (stream Receipt);
}
message Order {
  reserved 9;
  reserved "colour";
  string item = 1;
  repeated int32 sizes = 2;
  optional bool gift = 3;
  map<string, int64> counts = 4;
  oneof payment {
    string card = 5;
    bool cash = 6;
  }
  Speed speed = 7;
  Inner inner = 8;
  message Inner { double weight = 1; }
  enum Speed {
    SLOW = 0;
    FAST = 1;
  }
}
message Receipt {
  int64 price = 1;
}
"""


class Folder:
    """A repository of one .proto file."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        (self.root / "proto").mkdir()
        (self.root / "third_party" / "googleapis").mkdir(parents=True)
        self.golden = self.root / "golden.txt"

    def write(self, text):
        (self.root / "proto" / "shop.proto").write_text(text, encoding="utf-8")

    def run(self, *arguments):
        """The exit code, and what was said."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = golden.main([*arguments, "--root=%s" % self.root, "--golden=%s" % self.golden])
        return code, said.getvalue()


class GoldenTest(unittest.TestCase):
    def test_the_wire_is_as_recorded(self):
        lines = golden.describe(golden.compile_protos(golden.ROOT))
        recorded = golden.GOLDEN.read_text(encoding="utf-8").splitlines()
        self.assertGreater(len(recorded), 500)
        self.assertEqual(golden.breaking(recorded, lines), [], "old clients would break")
        self.assertEqual(recorded, lines, "additions are allowed: run tests/proto/golden.py --update")


class ChangesTest(unittest.TestCase):
    def setUp(self):
        root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, root)
        self.folder = Folder(root)
        self.folder.write(PROTO)
        self.assertEqual(self.folder.run("--update")[0], 0)

    def change(self, old, new):
        self.assertEqual(PROTO.count(old), 1, old)
        self.folder.write(PROTO.replace(old, new))

    def test_the_lines(self):
        lines = self.folder.golden.read_text(encoding="utf-8").splitlines()
        for line in [
            "field gluond.v1.Order 2 sizes repeated int32",
            "field gluond.v1.Order 3 gift optional bool",
            "field gluond.v1.Order 4 counts singular map<string,int64>",
            "field gluond.v1.Order 5 card singular string oneof=payment",
            "field gluond.v1.Order 7 speed singular gluond.v1.Order.Speed",
            "reserved gluond.v1.Order 9",
            'reserved gluond.v1.Order "colour"',
            "value gluond.v1.Order.Speed 1 FAST",
            "rpc gluond.v1.Shop Watch gluond.v1.Order -> stream gluond.v1.Receipt",
        ]:
            self.assertIn(line, lines)
        self.assertEqual(self.folder.run(), (0, ""))

    def test_additions_are_allowed_and_recorded(self):
        before = self.folder.golden.read_text(encoding="utf-8")
        for old, new in [
            ("int64 price = 1;", "int64 price = 1; string currency = 2;"),
            ("FAST = 1;", "FAST = 1; FASTER = 2;"),
            ("rpc Buy(", "rpc Sell(Order) returns (Receipt); rpc Buy("),
            ("bool cash = 6;", "bool cash = 6; int64 iban = 10;"),
            ("message Receipt {", "message Refund {} message Receipt {"),
            ("reserved 9;", "reserved 9, 20 to 29;"),
        ]:
            with self.subTest(new):
                self.change(old, new)
                code, said = self.folder.run()
                self.assertEqual(code, 1)
                self.assertIn("out of date", said)
                self.assertNotIn("breaks", said)
                self.assertEqual(self.folder.run("--update")[0], 0)
                self.assertEqual(self.folder.run(), (0, ""))
                self.folder.golden.write_text(before, encoding="utf-8")

    def test_what_would_break_old_clients_is_refused(self):
        before = self.folder.golden.read_text(encoding="utf-8")
        for old, new, named in [
            ("  string item = 1;\n", "", "field 1 of gluond.v1.Order is gone"),
            ("  string item = 1;\n", "  string item = 11;\n", "field 1 of gluond.v1.Order is gone"),
            ("string item = 1;", "bytes item = 1;", "was item singular string and is now item singular bytes"),
            ("string item = 1;", "string thing = 1;", "and is now thing"),
            ("string item = 1;", 'string item = 1 [json_name = "Item"];', "json=Item"),
            ("string item = 1;", "repeated string item = 1;", "item repeated string"),
            ("optional bool gift", "bool gift", "gift singular bool"),
            ("map<string, int64>", "map<string, string>", "map<string,string>"),
            ("repeated int32", "repeated int64", "sizes repeated int64"),
            ("oneof payment {\n    string card = 5;", "string card = 5;\n  oneof payment {", "field 5 of gluond.v1.Order"),
            ("oneof payment", "oneof means", "oneof=means"),
            ("FAST = 1;", "", "value FAST of gluond.v1.Order.Speed is gone"),
            ("FAST = 1;", "QUICK = 1;", "value FAST of gluond.v1.Order.Speed is gone"),
            ("FAST = 1;", "FAST = 2;", "value FAST of gluond.v1.Order.Speed was 1 and is now 2"),
            ("rpc Buy(Order) returns (Receipt);", "", "method Buy of gluond.v1.Shop is gone"),
            ("rpc Buy(Order)", "rpc Buy(stream Order)", "method Buy of gluond.v1.Shop was"),
            ("returns (stream Receipt)", "returns (Receipt)", "method Watch of gluond.v1.Shop was"),
            ("rpc Buy(Order)", "rpc Buy(Receipt)", "method Buy of gluond.v1.Shop was"),
            ("service Shop", "service Store", "service gluond.v1.Shop is gone"),
            ("reserved 9;", "", "gluond.v1.Order keeps 9 reserved no more"),
            ('reserved "colour";', "", 'gluond.v1.Order keeps "colour" reserved no more'),
            ("package gluond.v1;", "package gluond.v2;", "message gluond.v1.Order is gone"),
        ]:
            with self.subTest(new or old):
                self.change(old, new)
                for arguments in [], ["--update"]:
                    code, said = self.folder.run(*arguments)
                    self.assertEqual(code, 1)
                    self.assertIn("breaks old clients: ", said)
                    self.assertIn(named, said)
                self.assertEqual(self.folder.golden.read_text(encoding="utf-8"), before)

    def test_a_break_that_is_meant_is_recorded(self):
        self.change("  string item = 1;\n", "")
        code, said = self.folder.run("--update", "--break")
        self.assertEqual(code, 0)
        self.assertIn("field 1 of gluond.v1.Order is gone", said)
        self.assertEqual(self.folder.run(), (0, ""))

    def test_other_packages_do_not_count(self):
        self.folder.write(PROTO.replace("package gluond.v1;", "package shop.v1;"))
        self.assertEqual(golden.describe(golden.compile_protos(self.folder.root)), [])


if __name__ == "__main__":
    case_runner.main()
