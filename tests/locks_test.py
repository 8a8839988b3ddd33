"""Every mutex of the engine, operators and server is a Mutex (engine/core/mutex.h), and clang finds no access without
its lock. The BUILD file names the generated headers as data: they lie below the working folder.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from tests import case_runner

ROOT = pathlib.Path(os.path.realpath(__file__)).parent.parent
HEADER = "engine/core/mutex.h"
STANDARD = re.compile(r"\bstd::(?:\w*mutex|lock_guard|unique_lock|scoped_lock|shared_lock|condition_variable\w*)\b")
GUARDED = re.compile(r"\bMutex(?:Lock)?\b")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
BUSY_ROOMS = (
    "engine/runtime/",
    "server/rpc/",
    "server/services/",
    "server/session/",
    "server/net/",
    "server/identity/",
    "server/serving/",
)
AT_LEAST = 10  # Files of a case that clang reads: fewer were not found where they are.

CLANG = shutil.which("clang++")
FLAGS = [
    "-std=c++20",
    "-fsyntax-only",
    "-Wthread-safety",
    "-Werror=thread-safety",
    f"-I{ROOT}",
    "-I.",
    "-Iproto",
    "-Ithird_party/googleapis",
]
# Most files begin with these, which take longer to read than the rest.
FREQUENT = "".join(
    f"#include <{name}>\n"
    for name in (
        "functional",
        "absl/container/flat_hash_map.h",
        "absl/status/statusor.h",
        "absl/strings/str_cat.h",
        "google/protobuf/message.h",
        "grpcpp/grpcpp.h",
    )
)
PLANTED = """
#include "engine/core/mutex.h"
struct Counter {
  int Next() { gluond::MutexLock lock(mu); return ++count; }
  int Seen() { return count; }
  gluond::Mutex mu;
  int count ABSL_GUARDED_BY(mu) = 0;
};
"""


def sources(*rooms):
    """Each source file's text, by its path."""
    paths = [path for room in rooms for path in sorted((ROOT / room).rglob("*"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths if path.suffix in (".h", ".cc", ".cu", ".cuh")}


def guarded(texts):
    """The .cc files that name a mutex, or include a header that does."""
    headers = {path for path, text in texts.items() if path.endswith(".h") and path != HEADER and GUARDED.search(text)}
    return [
        path
        for path, text in texts.items()
        if path.endswith(".cc") and (GUARDED.search(text) or headers & set(INCLUDE.findall(text)))
    ]


def errors(*arguments, text=None):
    """What clang says against a file, or against a text; empty: nothing."""
    run = subprocess.run([CLANG, *FLAGS, *arguments], input=text, capture_output=True, text=True)
    return run.stderr if run.returncode != 0 else ""


class LocksTest(unittest.TestCase):
    def test_every_mutex_is_annotated(self):
        standard = [path for path, text in sources("engine", "ops", "server").items() if STANDARD.search(text)]
        self.assertEqual(standard, [HEADER])

    def check(self, rooms):
        """clang finds no access without its lock in the files of these rooms, or, without rooms, in those of all others."""
        files = [
            file
            for file in guarded(sources("engine", "server"))
            if (file.startswith(rooms) if rooms else not file.startswith(BUSY_ROOMS))
        ]
        self.assertGreaterEqual(len(files), AT_LEAST)
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            read = pathlib.Path(folder, "frequent.pch")
            subprocess.run([CLANG, "-std=c++20", "-x", "c++-header", "-", "-o", read], input=FREQUENT, check=True, text=True)
            found = pool.map(lambda file: errors("-include-pch", read, ROOT / file), files)
            self.assertEqual([text for text in found if text], [])

    # A case each for as many files as a shard reads: the BUILD file shares the cases out.
    @unittest.skipUnless(CLANG, "there is no clang++; Debian's package is clang")
    def test_no_access_is_without_the_lock_in_the_runtime(self):
        self.check(BUSY_ROOMS[0])

    @unittest.skipUnless(CLANG, "there is no clang++; Debian's package is clang")
    def test_no_access_is_without_the_lock_in_calls(self):
        self.check(BUSY_ROOMS[1])

    @unittest.skipUnless(CLANG, "there is no clang++; Debian's package is clang")
    def test_no_access_is_without_the_lock_in_services(self):
        self.check(BUSY_ROOMS[2:4])

    @unittest.skipUnless(CLANG, "there is no clang++; Debian's package is clang")
    def test_no_access_is_without_the_lock_in_connections(self):
        self.check(BUSY_ROOMS[4:])

    @unittest.skipUnless(CLANG, "there is no clang++; Debian's package is clang")
    def test_no_access_is_without_the_lock_elsewhere(self):
        self.check(())

    @unittest.skipUnless(CLANG, "there is no clang++; Debian's package is clang")
    def test_a_planted_access_is_found(self):
        self.assertRegex(errors("-x", "c++", "-", text=PLANTED), "'count' requires holding mutex 'mu'")
        self.assertEqual(errors("-x", "c++", "-", text=PLANTED.replace("return count;", "return Next();")), "")


if __name__ == "__main__":
    case_runner.main()
