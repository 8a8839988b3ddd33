"""The operator cases: `operators.py {all,few,sanitizer}`. All of them, in several processes at once; about 40; or, under
compute-sanitizer where the machine has it, about 60 of those that compare the GPU with the CPU, which run each kernel a few
times. What is not all is every n-th case in the order of the list. Ends with status 3 where there is no GPU."""

import os
import re
import shutil
import subprocess
import sys

import count
import processes

CASES = processes.INSIDE, "gpu_op_test", f"--plugin={os.environ['GLUOND_PLUGIN']}", "--gtest_brief=1"
FEW, SANITIZED = 40, 60
COMPARISONS = "--gtest_filter=*TheGpuEqualsTheCpu*"
# The cases are small: one process leaves a GPU idle.
PROCESSES = min(16, os.cpu_count() or 1)


def number_of_cases(*flags):
    listed = subprocess.run([*CASES, "--gtest_list_tests", *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if listed.returncode != 0:
        print(listed.stdout.strip(), flush=True)
        sys.exit(listed.returncode)
    return len(re.findall(r"^  \S", listed.stdout, re.MULTILINE))


def start(shards, index, before=(), flags=()):
    """Every `shards`-th case, from number `index` on."""
    return subprocess.Popen(
        [*before, *CASES, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(index)},
    )


def number_in(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def add(cases, text, status):
    """Adds what gtest counted. A process that ended in another way is one failure more."""
    passed = number_in(r"^\[  PASSED  \] (\d+) tests?\.$", text)
    failed = number_in(r"^\[  FAILED  \] (\d+) tests?, listed below:$", text)
    cases.add(passed, failed)
    if status != 0:
        print("\n".join(line for line in text.splitlines()[-100:] if not line.startswith("[ ")))
    if status != 0 and failed == 0 or status == 0 and passed == 0:
        cases.check(f"gpu_op_test ended with status {status} after {passed} cases", False)


def run(cases, shards, indices):
    running = [start(shards, index) for index in indices]
    for text, process in [(process.communicate()[0], process) for process in running]:
        add(cases, text, process.returncode)


def sanitizer():
    """The program, or None."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ["PATH"], f"{home}/bin", "/usr/local/cuda/bin"]))


def sanitize(cases, tool, shards):
    """One case: no kernel of these touches memory that is not its own."""
    process = start(shards, 0, (tool, "--target-processes", "all", "--error-exitcode", "9"), [COMPARISONS])
    text, _ = process.communicate()
    ran = number_in(r"^\[  PASSED  \] (\d+) tests?\.$", text)
    print(
        f"compute-sanitizer: {ran} cases passed, status {process.returncode}: "
        + "; ".join(re.findall(r"^=+ (ERROR SUMMARY.*)$", text, re.MULTILINE)),
        flush=True,
    )
    if process.returncode != 0:
        print("\n".join(text.splitlines()[:60]))
    cases.check("compute-sanitizer", process.returncode == 0 and ran > 0)


def main():
    cases, which = count.Count(), sys.argv[1]
    known = number_of_cases(*([COMPARISONS] if which == "sanitizer" else []))
    if which == "sanitizer":
        sanitize(cases, sanitizer(), max(1, known // SANITIZED))
    elif which == "few":
        run(cases, max(1, known // FEW), [0])
    else:
        run(cases, PROCESSES, range(PROCESSES))
    cases.end()


if __name__ == "__main__":
    if sys.argv[1] == "sanitizer" and not sanitizer():
        print("no compute-sanitizer here")
        sys.exit(0)
    main()
