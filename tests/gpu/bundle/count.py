"""What a part of the bundle's run counts: the last line is `N passed, N failed`, as run.sh wants it."""

import sys


class Count:
    def __init__(self):
        self.passed = self.failed = 0

    def add(self, passed, failed):
        self.passed += passed
        self.failed += failed

    def check(self, what, is_right):
        """One case; says so where it failed."""
        self.add(bool(is_right), not is_right)
        if not is_right:
            print(f"FAILED: {what}", flush=True)

    def end(self):
        """Prints the sums and ends the program: a part that counted nothing has failed."""
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(self.failed > 0 or self.passed == 0)
