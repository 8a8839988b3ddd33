"""A table of mistakes, as tests: each raises MXNet's exception, and the text names the cause and the way out."""

import unittest
from typing import NamedTuple

from gluond import nd
from gluond.gluon import nn


class Mistake(NamedTuple):
    make: object
    kind: type
    says: tuple
    later: bool


class Table:
    """Rows are added by `@mistake(...)`, where `mistake` is the table."""

    def __init__(self):
        self._rows = []

    def __call__(self, kind, *says, later=False):
        """Adds a function that makes a mistake, the exception's type in MXNet, and a part of the text.

        later: the function raises nothing; what it returns does, where its values are wanted (nothing: waitall). Then the
        text shows the line that made the mistake.
        """

        def add(make):
            self._rows.append(Mistake(make, kind, says, later))
            return make

        return add

    def case(self):
        """A TestCase with one test for each row."""
        tests = {f"test_{row.make.__name__}": lambda case, row=row: _check(case, row) for row in self._rows}
        return type("MistakesTest", (unittest.TestCase,), tests)


def _check(case, row):
    with case.assertRaises(row.kind) as caught:
        wrong = row.make()
        if row.later and wrong is None:
            nd.waitall()
        elif row.later:
            wrong.asnumpy()
    text = str(caught.exception)
    if row.later:
        case.assertRegex(text, rf'mistakes_test\.py", line \d+, in {row.make.__name__}\n')
    else:
        case.assertNotIn("made earlier", text)
    for part in row.says:
        case.assertIn(part, text)
    case.assertEqual(nd.ones(1).asscalar(), 1)  # The session goes on.


def matrix():
    return nd.ones((2, 3))


def marked():
    x = matrix()
    x.attach_grad()
    return x


def dense(**kwargs):
    """An initialized Dense(2) for matrix()."""
    net = nn.Dense(2, **{"in_units": 3, **kwargs})
    net.initialize()
    return net
