#!/usr/bin/python3
"""What each source file has its compiler read: our headers, messages, gRPC, by the includes and nothing else.

    tests/headers.py                a row for each room
    tests/headers.py --budget       the same with a little room to grow, as tests/headers_test.py has it
    tests/headers.py --worst[=N]    the headers, and the single includes, whose absence from other headers would save most bytes.
                                    Asks g++ what the libraries' headers read, and wants bazel-bin with the generated ones
    tests/headers.py FILE...        what these files read
"""

import collections
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOMS = ("client", "engine", "ops", "server")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)
IMPORT = re.compile(r'^import (?:public )?"([^"]+)\.proto";', re.MULTILINE)
# Where a generated header's .proto is, below the root.
PROTOS = ("proto", "", "third_party/googleapis")
# The C++ client's own headers are included as its package has them.
PUBLIC = "client/cpp"

Row = collections.namedtuple("Row", "grpc protobuf messages median most")


def room_of(path):
    """The room of a source file: server/rpc/stream.cc -> server/rpc, ops/relu.cc -> ops, ops/kernel/cpu/gemm.cc -> ops/kernel."""
    parts = pathlib.PurePosixPath(path).parts[:-1]
    return "/".join(parts[:2])


class Headers:
    """The includes of a checkout. Headers are named as an include names them, with those of the libraries among them."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self._includes = {}
        self._reads = {}

    def sources(self):
        """Paths of the rooms' source files."""
        return sorted(path.relative_to(self.root).as_posix() for room in ROOMS for path in (self.root / room).rglob("*.cc"))

    def is_ours(self, name):
        return name.split("/")[0] in ROOMS and (self.root / name).is_file()

    def includes(self, name):
        """The names that a file includes itself: none, of a library's header."""
        if name not in self._includes:
            self._includes[name] = tuple(self._read(name))
        return self._includes[name]

    def _read(self, name):
        if self.is_ours(name):
            # CUDA's stand where its compiler reads alone.
            found = [each for each in dict.fromkeys(INCLUDE.findall((self.root / name).read_text())) if not each.startswith("cu")]
            return [f"{PUBLIC}/{each}" if (self.root / PUBLIC / each).is_file() else each for each in found]
        if name.endswith(".grpc.pb.h"):
            return [name.replace(".grpc.pb.h", ".pb.h"), "grpcpp/grpcpp.h"]
        if name.endswith(".pb.h"):
            for folder in PROTOS:
                proto = self.root / folder / f"{name[:-len('.pb.h')]}.proto"
                if proto.is_file():
                    return ["google/protobuf/message.h", *(f"{each}.pb.h" for each in IMPORT.findall(proto.read_text()))]
        return []

    def reads(self, name, without=lambda source, header: False):
        """All that a file reads through whatever it includes, but for includes that `without` names."""
        found, waiting = set(), [name]
        while waiting:
            source = waiting.pop()
            for header in self.includes(source):
                if header not in found and not without(source, header):
                    found.add(header)
                    waiting.append(header)
        return found

    def counts(self, path):
        """(our headers, whether gRPC's are among it, whether protobuf's are, messages of ours) that a source file reads."""
        read = self.reads(path)
        return (
            sum(map(self.is_ours, read)),
            any(name.startswith("grpcpp/") for name in read),
            any(name.startswith("google/protobuf/") for name in read),
            sum(name.endswith(".pb.h") and not name.startswith("google/") for name in read),
        )

    def rows(self):
        """Row by room: the files that read gRPC's headers and protobuf's, generated headers of ours that all files read together, and
        the median and maximum of our own headers that one reads."""
        by_room = collections.defaultdict(list)
        for path in self.sources():
            by_room[room_of(path)].append(self.counts(path))
        return {
            room: Row(
                sum(each[1] for each in all_),
                sum(each[2] for each in all_),
                sum(each[3] for each in all_),
                statistics.median_high(each[0] for each in all_),
                max(each[0] for each in all_),
            )
            for room, all_ in sorted(by_room.items())
        }


class Weights:
    """Bytes that the compiler reads for a header of a library or a generated one, with all that it includes, as g++ says."""

    FLAGS = (
        "-std=c++20",
        "-DNDEBUG",
        "-w",
        "-iquote",
        ".",
        "-iquote",
        "bazel-bin",
        "-isystem",
        "proto",
        "-isystem",
        "bazel-bin/proto",
        "-isystem",
        "bazel-bin/third_party/googleapis",
    )

    def __init__(self, headers):
        self.headers = headers
        self._bits, self._sizes, self._masks = {}, [], {}

    def mask(self, name):
        """A bit for each file that is read for a header: for one of ours it alone, as what it includes has masks of its own."""
        if name not in self._masks:
            files = [name] if self.headers.is_ours(name) else self._closure(name)
            self._masks[name] = sum(1 << self._bit(file) for file in set(files))
        return self._masks[name]

    def _bit(self, file):
        if file not in self._bits:
            self._bits[file] = len(self._sizes)
            path = self.headers.root / file
            self._sizes.append(path.stat().st_size if path.is_file() else 0)
        return self._bits[file]

    def _closure(self, name):
        told = subprocess.run(
            ["g++", *self.FLAGS, "-M", "-x", "c++", "-"],
            input=f'#include "{name}"\n',
            cwd=self.headers.root,
            capture_output=True,
            text=True,
            check=False,
        )
        return [os.path.normpath(file) for file in told.stdout.replace("\\\n", " ").split()[1:] if file != "-"]

    def all(self, names):
        mask = 0
        for name in names:
            mask |= self.mask(name)
        return mask

    def bytes(self, mask):
        total = 0
        while mask:
            low = mask & -mask
            total += self._sizes[low.bit_length() - 1]
            mask ^= low
        return total


def worst(headers, count):
    """Prints what other headers include that costs most: first over all headers that include it, then by single include."""
    weights = Weights(headers)
    sources = headers.sources()
    reads = {path: headers.reads(path) for path in sources}
    whole = {path: weights.all(read) for path, read in reads.items()}
    total = sum(map(weights.bytes, whole.values()))
    print(f"{len(sources)} files read {total / 1e6:.0f} MB, {total / len(sources) / 1e6:.2f} each")
    ours = lambda name: headers.is_ours(name) and name.endswith(".h")
    edges = {(source, header) for read in reads.values() for source in read if ours(source) for header in headers.includes(source)}
    targets = sorted({header for _, header in edges})

    def saved(without, touches):
        files = cost = 0
        for path in sources:
            if touches(reads[path]):
                lost = whole[path] & ~weights.all(headers.reads(path, without))
                files += lost != 0
                cost += weights.bytes(lost)
        return cost, files

    rows = []
    for target in targets:
        cost, files = saved(
            lambda source, header, target=target: header == target and ours(source), lambda read, target=target: target in read
        )
        rows.append((cost, files, sum(target == header for _, header in edges), target))
    print("in no header:       MB saved  files  included by headers")
    for cost, files, by, target in sorted(rows, reverse=True)[:count]:
        print(f"{cost / 1e6:28.1f} {files:6} {by:5}  {target}")
    rows = []
    for edge in sorted(edges):
        cost, files = saved(lambda source, header, edge=edge: (source, header) == edge, lambda read, edge=edge: edge[0] in read)
        rows.append((cost, files, edge))
    print("without an include: MB saved  files")
    for cost, files, (source, header) in sorted(rows, reverse=True)[:count]:
        print(f"{cost / 1e6:28.1f} {files:6}  {source} -> {header}")


def main():
    headers = Headers(pathlib.Path(os.path.realpath(__file__)).parent.parent)
    grown = lambda number: number and number + max(1, round(0.03 * number))
    option = next((each for each in sys.argv[1:] if each.startswith("--worst")), None)
    if option:
        worst(headers, int(option.partition("=")[2] or 10))
    elif sys.argv[1:] and sys.argv[1:] != ["--budget"]:
        for path in sys.argv[1:]:
            print(path, *headers.counts(path), *sorted(headers.reads(path)), sep="\n  ")
    else:
        for room, row in headers.rows().items():
            print(f'    "{room}": Row({", ".join(str(grown(each) if sys.argv[1:] else each) for each in row)}),')


if __name__ == "__main__":
    main()
