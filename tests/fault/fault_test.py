"""Every row of one theme of table.py in short form: the bystander works on, to the same bits, and so does the server.

Waits are printed, and are errors only where a call takes longer than the bystander's patience: tests share their machine.
run.py has the figures. Each row is played with identities, and the first rows of each theme also without.
"""

import os
import sys
import unittest

from tests import case_runner
from tests.fault import battle, run, table
from tests.server import running_server

SECONDS = 3
ALSO_WITHOUT = 2  # Rows of each theme.
IS_SANITIZED = "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ  # .bazelrc; such a server has more memory.


class FaultTest(unittest.TestCase):
    """Filled from the table."""


def case(row, knows_callers):
    def test(self):
        flags = run.memory_flag(row, running_server.BINARY)
        outcome = battle.fight(row, SECONDS, flags=flags, knows_callers=knows_callers)
        print(run.line(row, outcome), flush=True)
        self.assertIn(outcome.exit_code, battle.ENDED, outcome.last_words)
        self.assertEqual(outcome.report["errors"], {})
        self.assertEqual(outcome.report["health_errors"], {})
        self.assertTrue(outcome.same_bits, "the bystander's training ended with other bits")
        if flags and not IS_SANITIZED:
            self.assertLess(outcome.peak, row.most_resident)
        self.assertEqual(row.unexpected(outcome.told), {})

    return test


if __name__ == "__main__":
    for i, each in enumerate(table.THEMES[sys.argv.pop(1)]):
        name = "test_" + "".join(letter if letter.isalnum() else "_" for letter in each.name)
        setattr(FaultTest, name, case(each, knows_callers=True))
        if i < ALSO_WITHOUT:
            setattr(FaultTest, name + "_without_identities", case(each, knows_callers=False))
    case_runner.main()
