"""Every row of one theme of table.py in short form: the bystander works on, to the same bits, and so does the server.

Waits are printed, and are errors only where a call takes longer than the bystander's patience: tests share their machine.
run.py has the figures.
"""

import sys
import unittest

from tests import case_runner
from tests.fault import battle, run, table
from tests.server import running_server

SECONDS = 3


class FaultTest(unittest.TestCase):
  """Filled from the table."""


def case(row):

  def test(self):
    flags = run.memory_flag(running_server.BINARY)
    outcome = battle.fight(row, SECONDS, flags=flags)
    print(run.line(row, outcome), flush=True)
    self.assertIn(outcome.exit_code, battle.ENDED, outcome.last_words)
    self.assertEqual(outcome.report["errors"], {})
    self.assertEqual(outcome.report["health_errors"], {})
    self.assertTrue(outcome.same_bits, "the bystander's training ended with other bits")
    if flags:
      self.assertLess(outcome.peak, battle.MOST_RSS)
    self.assertEqual(row.unexpected(outcome.told), {})

  return test


if __name__ == "__main__":
  for each in table.THEMES[sys.argv.pop(1)]:
    setattr(FaultTest, "test_" + each.name.replace(" ", "_").replace("-", "_"), case(each))
  case_runner.main()
