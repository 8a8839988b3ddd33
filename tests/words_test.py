"""README's words: each is defined where the table says, and no other header of the engine, operators or server uses it for
something else."""

import os
import pathlib
import re
import unittest

from tests import case_runner

ROOT = pathlib.Path(os.path.realpath(__file__)).parent.parent
DEFINITION = re.compile(r"^ *(?:class|struct|enum class|enum) (?:\w+::)*(\w+)(?: final)?(?: :[^:;{][^;{]*)?\s*\{", re.MULTILINE)


def words(readme):
  """(word, header) for each row of the table."""
  table = readme.partition("\n## Words\n")[2].partition("\n## ")[0]
  return re.findall(r"^\| `(\w+)` \|.*\| `([^`]+)` \|$", table, re.MULTILINE)


def definitions(headers):
  """The headers that define each name, once for each definition."""
  found = {}
  for path, text in headers.items():
    for name in DEFINITION.findall(text):
      found.setdefault(name, []).append(path)
  return found


class WordsTest(unittest.TestCase):

  def test_each_word_is_one_thing(self):
    headers = {str(path.relative_to(ROOT)): path.read_text() for room in ("engine", "ops", "server")
               for path in (ROOT / room).rglob("*.h")}
    rows, found = words((ROOT / "README.md").read_text()), definitions(headers)
    self.assertGreater(len(rows), 20)
    for word, header in rows:
      with self.subTest(word=word):
        self.assertEqual(found.get(word), [header])

  def test_a_second_meaning_is_found(self):
    headers = {"a.h": "class Lane {\n", "b.h": "struct Road {\n  enum class Lane { kLeft };\n};\nclass Other;\n"}
    self.assertEqual(definitions(headers), {"Lane": ["a.h", "b.h"], "Road": ["b.h"]})


if __name__ == "__main__":
  case_runner.main()
