"""MXNet 1.9.1's own unit tests on gluond: how many pass, and which of those that did no longer do.

    PYTHONPATH=client/python GLUOND_SERVER=bazel-bin/server/gluond-server python3 tests/mxnet/run.py SOURCES [test_gluon ...]

SOURCES is a checkout of MXNet 1.9.1, of which nothing is copied here: `git clone -b 1.9.1 https://github.com/apache/mxnet`.
Python needs NumPy below 2, SciPy and what the package needs. Each test has a process and a server of its own. `names.txt` holds the
tests that pass on MXNet itself: "+" before those that pass here as well, "-" before the others. The status is 1 where a "+" has
failed.

--write  writes what has passed to names.txt. Tests that were not run keep their sign.
--mxnet  runs MXNet itself (pip install mxnet==1.9.1 'numpy<1.24' scipy), and with --write begins names.txt anew.
"""

import argparse
import ast
import json
import multiprocessing.pool
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NAMES = HERE / "names.txt"
# The files whose subject gluond has. Those of operators are counted apart.
OPERATORS = "test_operator"
FILES = """
    test_attr test_autograd test_base test_contrib_autograd test_contrib_control_flow test_contrib_io test_contrib_krprod
    test_contrib_operator test_contrib_optimizer test_contrib_stes_op test_contrib_text test_dynamic_shape test_engine
    test_exc_handling test_executor test_gluon test_gluon_contrib test_gluon_data test_gluon_data_vision test_gluon_model_zoo
    test_gluon_rnn test_gluon_save test_gluon_trainer test_gluon_utils test_higher_order_grad test_image test_infer_shape
    test_infer_type test_init test_io test_kvstore test_kvstore_custom test_loss test_metric test_model_parallel test_module
    test_multi_device_exec test_ndarray test_optimizer test_random test_recordio test_rnn test_symbol test_test_utils
    test_thread_local test_viz""".split() + [
    OPERATORS
]
_AT_ONCE = 10  # Tests of one file that a process imports the file for.


def tests_of(path):
    """The tests of a file: `test_a`, or `TestB.test_a`."""
    found = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef):
            found += [
                f"{node.name}.{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
            ]
    return list(dict.fromkeys(found))


def run_some(sources, stem, names, arguments):
    """Yields [name, "passed" or why not, seconds] for tests of one file."""
    command = [
        sys.executable,
        str(HERE / "one_file.py"),
        str(sources / "tests/python/unittest" / f"{stem}.py"),
        str(arguments.limit),
    ]
    with tempfile.TemporaryDirectory() as folder:
        packages = os.pathsep.join(map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))))
        environment = {**os.environ, "MXNET_TEST_SEED": "1", "MXNET_MODULE_SEED": "1", "TMPDIR": folder, "PYTHONPATH": packages}
        child = subprocess.Popen(
            [*command, *(["--mxnet"] if arguments.mxnet else []), *names],
            cwd=folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        lines = child.stdout.read().splitlines()
        child.wait()
    told = {name: (outcome, seconds) for name, outcome, seconds in map(json.loads, lines)}
    return [[f"{stem}.{name}", *told.get(name, ("the file's process ended", 0))] for name in names]


def run_all(sources, tests, arguments):
    """Yields (name, outcome, seconds)."""
    parts = [(stem, names[at : at + _AT_ONCE]) for stem, names in tests.items() for at in range(0, len(names), _AT_ONCE)]
    with multiprocessing.pool.ThreadPool(arguments.workers) as pool:
        for part in pool.imap_unordered(lambda each: run_some(sources, *each, arguments), parts):
            yield from part


def read_names():
    """{name: whether it has passed here}"""
    return {line[2:]: line[0] == "+" for line in NAMES.read_text().splitlines()} if NAMES.exists() else {}


def chosen(sources, known, arguments):
    """{file: the names of its tests that are asked for}"""
    tests = {}
    for stem in FILES:
        for name in tests_of(sources / "tests/python/unittest" / f"{stem}.py"):
            full = f"{stem}.{name}"
            is_asked = not arguments.files or any(full == each or full.startswith(each + ".") for each in arguments.files)
            if is_asked and (arguments.mxnet or full in known) and not (arguments.failed and known[full]):
                tests.setdefault(stem, []).append(name)
    return tests


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=pathlib.Path)
    parser.add_argument("files", nargs="*", help="test_gluon, or test_gluon.test_basic")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, default=120, help="seconds that a test may take")
    parser.add_argument("--failed", action="store_true", help="only the tests that do not pass yet")
    parser.add_argument("--mxnet", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="a file for each test's outcome, with its traceback")
    arguments = parser.parse_args()
    before = {} if arguments.mxnet else read_names()
    sources, after, outcomes = arguments.sources.resolve(), dict(before), {}
    for name, outcome, seconds in run_all(sources, chosen(sources, before, arguments), arguments):
        outcomes[name] = outcome
        if not arguments.mxnet:
            after[name] = outcome == "passed"
        elif outcome == "passed":
            after[name] = False
        if outcome != "passed":
            print(f"{name} ({seconds:.0f} s): {(outcome.strip().splitlines() or [''])[-1]}", flush=True)
        if arguments.write:
            NAMES.write_text("".join(f"{'-+'[after[name]]} {name}\n" for name in sorted(after)))
        if arguments.json:
            arguments.json.write_text(json.dumps(outcomes, indent=1))
    tell(before, after, outcomes)


def tell(before, after, outcomes):
    """Prints the counts, and ends with 1 where a test has been lost."""
    for title, is_one in (
        ("Gluon, arrays, symbols, training", lambda name: not name.startswith(OPERATORS + ".")),
        ("operators", lambda name: name.startswith(OPERATORS + ".")),
    ):
        print(
            f"{title}: {sum(is_passed for name, is_passed in after.items() if is_one(name))} of {sum(map(is_one, after))} that pass on MXNet"
        )
    lost = sorted(name for name, outcome in outcomes.items() if before.get(name) and outcome != "passed")
    print(f"{len(outcomes)} run; lost: {', '.join(lost) or 'none'}")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
