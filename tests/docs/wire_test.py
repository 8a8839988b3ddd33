import pathlib
import re
import unittest

from docs import generate_wire
from tests import case_runner

ROOT = pathlib.Path(generate_wire.__file__).parent.parent


class WireReferenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = generate_wire.describe(ROOT)

    def test_every_proto_file_is_covered(self):
        on_disk = sorted(p.stem for p in (ROOT / "proto/gluond/v1").glob("*.proto"))
        self.assertEqual(on_disk, sorted(generate_wire.FILES))

    def test_the_page_is_what_the_comments_say(self):
        page = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")
        self.assertEqual(page, generate_wire.generate(self.files), "docs/wire.md is out of date: run docs/generate_wire.py")

    def test_the_reasons_of_errors_are_listed(self):
        defined = re.findall(r'constexpr char k\w+\[\] = "(\w+)";', (ROOT / "engine/core/error_info.h").read_text())
        self.assertGreater(len(defined), 10)
        self.assertEqual(sorted(defined), re.findall(r"^\| `([A-Z_]+)` \| `[A-Z_]+` \|", generate_wire.HEADER, re.MULTILINE))

    def test_a_field_without_a_comment_is_named(self):
        file = type(self.files[0])()
        file.CopyFrom(next(f for f in self.files if f.name == "gluond/v1/server.proto"))
        at = next(l for l in file.source_code_info.location if list(l.path) == [4, 1, 2, 0])
        at.leading_comments = ""
        with self.assertRaisesRegex(generate_wire.MissingComment, r"GetServerInfoResponse\.version"):
            generate_wire.generate([file])

    def test_mutating_requests_share_their_field_numbers(self):
        mutating = 0
        for file in self.files:
            for message in file.message_type:
                for field in message.field:
                    if field.type_name == ".gluond.v1.CallOptions":
                        mutating += 1
                        self.assertEqual((field.name, field.number), ("call", 14), message.name)
                    else:
                        self.assertTrue(field.name != "sequence" or message.name == "CallOptions", message.name)
        self.assertEqual(mutating, 18)


if __name__ == "__main__":
    case_runner.main()
