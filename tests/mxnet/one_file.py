"""Runs tests of one file of MXNet's, each in a process of its own: a line [name, outcome, seconds] as JSON for each."""

import inspect
import json
import os
import pathlib
import select
import signal
import sys
import time
import traceback
import unittest

import redirect


def call(module, name):
    """Runs one test as nose does: a function, a generator of functions with arguments, or a method."""
    if "." in name:
        kind, method = name.split(".")
        suite = getattr(module, kind)
        if issubclass(suite, unittest.TestCase):
            return suite(method).debug()
        return getattr(suite(), method)()
    function = getattr(module, name)
    made = function()
    if inspect.isgenerator(made):
        for each, *arguments in made:
            each(*arguments)


def in_child(module, name, pipe):
    """Ends this process; the outcome goes to the pipe."""
    try:
        for setup in ("setup_module", "setup"):
            if callable(getattr(module, setup, None)):
                getattr(module, setup)()
                break
        call(module, name)
        outcome = "passed"
    except unittest.SkipTest as skipped:
        outcome = f"skipped: {skipped}"
    except BaseException:
        outcome = traceback.format_exc()
    os.write(pipe, outcome.encode()[-8000:])
    os._exit(0)


def run(module, name, limit):
    """The outcome of one test."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(reader)
        in_child(module, name, writer)
    os.close(writer)
    ready = select.select([reader], [], [], limit)[0]
    outcome = os.read(reader, 10000).decode(errors="replace") if ready else f"took longer than {limit} s"
    try:
        os.killpg(child, signal.SIGKILL)  # Its server and its workers as well.
    except ProcessLookupError:
        pass
    os.waitpid(child, 0)
    os.close(reader)
    return outcome or "its process ended"


def main():
    path, limit, *names = sys.argv[1:]
    is_mxnet_itself = names[0] == "--mxnet"
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # The tests print, too.
    redirect.install(is_mxnet_itself)
    sys.path.insert(0, str(pathlib.Path(path).parent))
    module = redirect.load(path)
    for name in names[is_mxnet_itself:]:
        begin = time.monotonic()
        print(json.dumps([name, run(module, name, float(limit)), time.monotonic() - begin]), file=results, flush=True)


if __name__ == "__main__":
    main()
