"""How both sides answer: each line of standard input is `WHAT ARGUMENT...`, and its answer one line with a number."""

import sys
import time


def milliseconds(run, times, finish):
    """Of each run, where many are under way before the last one's result is waited for."""
    begin = time.perf_counter()
    for _ in range(times):
        run()
    finish()
    return (time.perf_counter() - begin) / times * 1e3


class Turns:
    """`makers` gives for WHAT a function of the arguments, which returns what is timed: (run, times, finish)."""

    def __init__(self, makers):
        self.makers, self.prepared = makers, {}

    def time(self, line):
        """A line's first turn warms up: memory, handles, plans."""
        if line not in self.prepared:
            what, *arguments = line.split()
            self.prepared[line] = self.makers[what](*arguments)
            run, times, finish = self.prepared[line]
            milliseconds(run, min(times, 3), finish)
        return milliseconds(*self.prepared[line])

    def answer(self, other):
        """Until the end of the input. `other`: functions that answer with anything but a time."""
        for line in map(str.strip, sys.stdin):
            print(f"{other[line]()}" if line in other else f"{self.time(line):.5f}", flush=True)
