"""docs/flags.md is what the server says of its flags."""

import pathlib
import unittest

from docs import generate_flags
from tests import case_runner

SERVER = pathlib.Path("server/gluond-server")


class FlagsTest(unittest.TestCase):
    def test_the_page_is_what_the_server_says(self):
        text = generate_flags.listed(str(SERVER))
        self.assertGreater(len(list(generate_flags.flags(text))), 60)
        self.assertEqual(
            generate_flags.PAGE.read_text(encoding="utf-8"),
            generate_flags.generate(text),
            "docs/flags.md is out of date: run docs/generate_flags.py",
        )

    def test_a_flag_is_read_over_several_lines(self):
        text = (
            'x: y\n\n  Flags from a.cc:\n    --far (Says much,\n      and | more.); default: 7;\n    --near (Little.); default: "";\n'
            "\nTry --helpfull\n"
        )
        self.assertEqual(list(generate_flags.flags(text)), [("far", "7", "Says much, and | more."), ("near", '""', "Little.")])
        self.assertTrue(
            generate_flags.generate(text).endswith("| `--far` | `7` | Says much, and \\| more. |\n| `--near` |  | Little. |\n")
        )
        with self.assertRaises(ValueError):
            list(generate_flags.flags("\n  Flags from a.cc:\n    --odd no brackets\n"))


if __name__ == "__main__":
    case_runner.main()
