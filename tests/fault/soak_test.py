"""Half a minute of soak.py: clients' memory goes with them, also with those that were killed."""

import unittest

from tests import case_runner
from tests.fault import soak


class SoakTest(unittest.TestCase):
    def test_everything_comes_back(self):
        figures, before, after, held, crowd = soak.soak(minutes=0.4, clients=3, longest=6)
        print(before, *figures.samples[1::5], after, sep="\n")
        self.assertGreater(crowd.killed, 0)
        self.assertEqual(held, 0)
        self.assertLessEqual(after.descriptors, before.descriptors + 4)
        self.assertLessEqual(after.threads, max(sample.threads for sample in figures.samples))


if __name__ == "__main__":
    case_runner.main()
