"""The second half of tests/run.sh: chooses test targets, has Bazel run them, and counts their cases.

Bazel knows targets; we count cases. Its build events name each target's status and the XML file that gtest or
tests/case_runner.py left; a cached result keeps its file. What a target's status says and its cases do not
(a crash, a leak reported at exit, a time-out, a failed build) is one failed case more.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse
from xml.etree import ElementTree

BAZEL = os.environ.get("BAZEL", "bazel").split()
TSAN_ROOMS = re.compile(r"^//tests/(engine/runtime|server)\b")
BAZEL_BUILD_FAILED, BAZEL_TESTS_FAILED = 1, 3
PEERS = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "gluond", "peers")
BY_TAG = ("peers", "operations")  # Targets that only these options run, and no configuration of Bazel.
NO_PACKAGE_INDEX = 75  # tests/peers/install.py says so.

Case = collections.namedtuple("Case", "name state message")  # state: passed, failed or skipped


def targets(rules, config):
    """Labels of the targets of these rules that this configuration builds, each with its rule's name."""
    tagged = lambda tag: f"attr(tags, '[\\[ ]{tag}[,\\]]', //...)"
    expression = f"kind('{rules} rule', //...)"
    manual = tagged("manual")
    if config in ("cuda", *BY_TAG):
        expression += f" intersect {tagged(config)}"
        manual = manual if config == "cuda" else "set()"
    else:
        expression += f" except attr(target_compatible_with, 'incompatible', //...) except {tagged('cuda')}"
        if config:
            expression += f" except {tagged('no' + config)}"
    query = subprocess.run(
        BAZEL + ["query", "--noshow_progress", "--output=label_kind", f"({expression}) except {manual}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    if query.returncode != 0:
        raise SystemExit("run: the BUILD files cannot be read; see above\n0 passed, 1 failed")
    found = {}
    for line in query.stdout.splitlines():
        kind, _, label = line.split(" ")
        if config != "tsan" or TSAN_ROOMS.match(label):
            found[label] = kind
    return found


def install_peers(labels):
    """Bazel's flags for tests of others' programs, which are installed. Ends the run where no package index has them."""
    code = subprocess.run([sys.executable, "tests/peers/install.py", PEERS]).returncode
    if code == NO_PACKAGE_INDEX:
        for label in sorted(labels):
            print(f"skipped: {label} (no package index)")
        print("0 passed, 0 failed")
        sys.exit(0)
    if code != 0:
        raise SystemExit("run: others' programs cannot be installed; see above\n0 passed, 1 failed")
    return [f"--test_env=GLUOND_PEERS={PEERS}"]


def run(flags, labels):
    """Bazel's exit code, and per label its status and the outputs of its last attempts."""
    with tempfile.TemporaryDirectory() as folder:
        events = pathlib.Path(folder, "events.json")
        chosen = pathlib.Path(folder, "targets")
        chosen.write_text("\n".join(labels))
        code = subprocess.run(
            BAZEL + ["test", "--keep_going", f"--build_event_json_file={events}", f"--target_pattern_file={chosen}"] + flags
        ).returncode
        statuses, outputs = {}, {}
        for line in events.read_text().splitlines() if events.exists() else []:
            try:
                event = json.loads(line)
            except ValueError:  # Cut off: the disk is full. A test without a status counts as failed.
                continue
            if "testSummary" in event:
                statuses[event["id"]["testSummary"]["label"]] = event["testSummary"]["overallStatus"]
            elif "testResult" in event:
                key = event["id"]["testResult"]
                outputs.setdefault(key["label"], {})[key.get("run"), key.get("shard")] = {
                    output["name"]: urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
                    for output in event["testResult"].get("testActionOutput", [])
                    if "uri" in output
                }
    return code, statuses, outputs


def read_cases(report):
    """The cases in one XML file; none if it is not there or was cut off."""
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError):
        return
    for case in root.iter("testcase"):
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        broken = [note for note in case if note.tag in ("failure", "error")]
        skipped = case.find("skipped")
        if broken:
            yield Case(name, "failed", broken[0].get("message") or (broken[0].text or "").strip())
        elif skipped is not None:
            yield Case(name, "skipped", skipped.get("message") or "")
        elif case.get("status") != "notrun":
            yield Case(name, "passed", "")


def interrupted(log):
    """The gtest case that was running when the log ended, or None."""
    try:
        text = pathlib.Path(log).read_text(errors="replace")
    except OSError:
        return None
    begun = re.findall(r"^\[ RUN      \] (\S+)", text, re.MULTILINE)
    if begun and not re.search(rf"^\[[^\]]+\] {re.escape(begun[-1])}\b.*\(\d+ ms\)", text, re.MULTILINE):
        return begun[-1]
    return None


def judge(label, status, results):
    """The cases of one target."""
    cases = []
    for files in results.values():
        found = list(read_cases(files.get("test.xml", "")))
        running = interrupted(files.get("test.log", "")) if status not in ("PASSED", "FLAKY") else None
        if running:  # Bazel's own report stands for the one that a crash prevented.
            found = [Case(running, "failed", "it crashed or was killed here")]
        cases += [
            case._replace(message=f"{case.message}\nlog: {files['test.log']}")
            if case.state == "failed" and "test.log" in files
            else case
            for case in found
        ]
    if status not in ("PASSED", "FLAKY") and not any(case.state == "failed" for case in cases):
        words = status.lower().replace("_", " ")
        logs = "".join(f"\nlog: {files['test.log']}" for files in results.values() if "test.log" in files)
        reason = f"{words}, though no case says so" if results else "it could not be built"
        cases.append(Case("(whole target)", "failed", reason + logs))
    return cases


def main():
    parser = argparse.ArgumentParser(prog="tests/run.sh")
    parser.add_argument("pattern", nargs="?")
    configs = parser.add_mutually_exclusive_group()
    for config in ("asan", "ubsan", "tsan", "cuda", *BY_TAG):
        configs.add_argument("--" + config, dest="config", action="store_const", const=config)
    options = parser.parse_args()

    known = targets(".*_test", options.config)
    flags = [f"--config={options.config}"] if options.config and options.config not in BY_TAG else []
    expected, built, by_case = known, [], False
    if options.pattern:
        try:
            expected = {label: kind for label, kind in known.items() if re.search(options.pattern, label)}
        except re.error as error:
            raise SystemExit(f"run: PATTERN is no regular expression: {error}\n0 passed, 1 failed")
        if not expected:
            by_case = True
            expected = {label: kind for label, kind in known.items() if kind in ("cc_test", "py_test")}
            flags.append(f"--test_filter=*{options.pattern}*")
    elif not options.config:
        # Benchmarks and tools must build, too. (Not //..., which compiles each library again as -fPIC.)
        built = list(targets("(cc|py|sh)_binary|genrule", None))
    if not expected:
        raise SystemExit("run: there is no test to run\n0 passed, 1 failed")
    if options.config == "peers":
        flags += install_peers(expected)

    code, statuses, outputs = run(flags, built + list(expected))
    if code not in (0, BAZEL_BUILD_FAILED, BAZEL_TESTS_FAILED):
        raise SystemExit(f"run: Bazel ended with {code}; see above\n0 passed, 1 failed")

    count = collections.Counter()
    print()
    for label in sorted(expected):
        cases = judge(label, statuses.get(label, "NO_STATUS"), outputs.get(label, {}))
        if by_case:
            cases = [case for case in cases if options.pattern in case.name or case.name == "(whole target)"]
        elif not cases:
            cases = [Case("(whole target)", "failed", "it ran no case")]
        for case in cases:
            count[case.state] += 1
            if case.state != "passed":
                first, *rest = case.message.strip().splitlines() or [""]
                print(f"{case.state.upper()}: {label} {case.name}: {first}")
                print("".join(f"    {line}\n" for line in rest), end="")
    if code == BAZEL_BUILD_FAILED and not count["failed"]:
        print("FAILED: the build of a target that is no test; see above")
        count["failed"] += 1
    if not count["passed"] and not count["failed"]:
        print(f"FAILED: {options.pattern!r} matches the label of no test target and the name of no case that ran")
        count["failed"] += 1
    if count["skipped"]:
        print(f"{count['skipped']} skipped")
    print(f"{count['passed']} passed, {count['failed']} failed")
    sys.exit(count["failed"] > 0)


if __name__ == "__main__":
    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, str):  # The last line belongs to standard output.
            print(end.code)
            sys.exit(1)
        raise
    except KeyboardInterrupt:
        sys.exit(130)
