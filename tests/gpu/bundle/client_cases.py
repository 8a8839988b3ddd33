"""The Python client's own tests with gpu(0) as the default context, each file with a server of its own:
`client_cases.py [FILE]...`, as in client_cases.txt; all of them unless said."""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

import count
import processes

# Each has a client and a server.
AT_ONCE = 4


def run(name):
    """A file's cases: passed, failed, and what it printed where that is of interest."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        process = subprocess.run(
            [*processes.PYTHON, processes.ROOT / "tests/gpu/emulated/on_gpu.py", f"tests.client.python.{name}_test"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=processes.ROOT,
            env={**os.environ, "GLUOND_SERVER": str(processes.ROOT / "bin/server"), "XML_OUTPUT_FILE": report.name},
        )
        try:
            cases = ElementTree.parse(report.name).getroot().findall("testcase")
        except ElementTree.ParseError:
            cases = []
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    if process.returncode != 0 and failed == 0 or not cases:
        failed += 1
    return len(cases) - failed if cases else 0, failed, process.stdout if failed else ""


def main():
    names = sys.argv[1:] or (processes.HERE / "client_cases.txt").read_text().split()
    cases = count.Count()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for name, (passed, failed, said) in zip(names, pool.map(run, names)):
            cases.add(passed, failed)
            if failed:
                print(f"FAILED: {name}, {failed} of {passed + failed}\n{said[-4000:]}", flush=True)
    cases.end()


if __name__ == "__main__":
    main()
