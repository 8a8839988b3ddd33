"""The archive of the C++ library, as a program finds it that Bazel does not build."""

import concurrent.futures
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from tests import case_runner
from tests.server import running_server

VERSION = "0.1.0"
SYMBOLS = pathlib.Path("tests/client/cpp/package_symbols.txt")
KINDS = {"shared": "OFF", "static": "ON"}
# Functions of operators, which come and go with the registry: op_names_test.py holds them against it.
OPERATOR = re.compile(r"(?:[^(]* )?gluond::client::op::")
CALLS = """
#include <gluond/gluond.h>
#include <iostream>
using namespace gluond;
int main(int, char** argv) {
  if (!Session::Connect(argv[1]).ok()) return 1;
  op::OnesOptions ones;
  ones.shape = {2};
  op::SumOptions sum;
  sum.axis = 1;
  NDArray places = op::Topk(op::Sum(op::Ones(ones) + NDArray::Of<float>({2, 2}, {1, 2, 3, 4}), sum));
  std::cout << places.Item().value() << "\\n";
}
"""


def run(*command, **options):
    """A command's output; its whole text where it fails."""
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **options)
    if ran.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}")
    return ran.stdout


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        with tarfile.open(f"client/cpp/gluond-{VERSION}.tar.gz") as tar:
            tar.extractall(cls.folder)
        cls.package = cls.folder / f"gluond-{VERSION}"

    def built(self, source, kind, *options):
        """The folder in which CMake has built a project."""
        build = self.folder / f"{pathlib.Path(source).name}-{kind}"
        # Bazel's links lead out of the folder; CMake sees copies.
        copy = shutil.copytree(source, self.folder / f"{build.name}-source")
        run("cmake", "-S", copy, "-B", build, "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={self.package}",
            f"-DGLUOND_STATIC={KINDS[kind]}", *options)  # fmt: skip
        run("cmake", "--build", build, "--parallel", "2")
        return build

    def test_the_example_trains_two_moons(self):
        server = self.enterContext(running_server.RunningServer())
        for kind in KINDS:
            with self.subTest(kind=kind):
                said = run(self.built("deploy/examples/cpp", kind) / "moons", server.address)
                self.assertGreater(float(re.search(r"accuracy: ([\d.]+)", said)[1]), 0.95)

    def test_a_service_computes_an_operator(self):
        server = self.enterContext(running_server.RunningServer())
        provider = subprocess.Popen([self.built("deploy/examples/cpp_provider", "static") / "provider", server.address],
                                    stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.assertEqual(provider.stdout.readline(), "huber is computed here\n")
        provider.kill()
        provider.wait()
        provider.stdout.close()

    def test_a_program_has_another_client_with_messages_of_the_same_names(self):
        protos = self.folder / "protos"
        shutil.copytree("proto/inference", protos / "proto/inference")
        shutil.copytree("third_party/googleapis/google", protos / "google")
        for kind in KINDS:
            with self.subTest(kind=kind):
                build = self.built("tests/client/cpp/two_clients", kind, f"-DPROTOS={protos}")
                with running_server.RunningServer() as server:
                    self.assertEqual(run(build / "two_clients", server.address), "both agree\n")

    def test_pkg_config_says_how_to_build(self):
        (self.folder / "version.cc").write_text(
            "#include <gluond/gluond.h>\nint main() { return gluond::Tensor().size() + (GLUOND_VERSION_MAJOR != 0); }\n"
        )
        tool = {"env": {**os.environ, "PKG_CONFIG_PATH": f"{self.package}/lib/pkgconfig"}}
        self.assertEqual(run("pkg-config", "--modversion", "gluond", **tool).strip(), VERSION)
        flags = run("pkg-config", "--cflags", "--libs", "gluond", **tool).split()
        run("g++", "-std=c++17", self.folder / "version.cc", "-o", self.folder / "version", *flags)
        run(self.folder / "version", env={**os.environ, "LD_LIBRARY_PATH": str(self.package / "lib")})

    def test_a_program_calls_operators(self):
        (self.folder / "calls.cc").write_text(CALLS)
        tool = {"env": {**os.environ, "PKG_CONFIG_PATH": f"{self.package}/lib/pkgconfig"}}
        flags = run("pkg-config", "--cflags", "--libs", "gluond", **tool).split()
        run("g++", "-std=c++17", self.folder / "calls.cc", "-o", self.folder / "calls", *flags)
        with running_server.RunningServer() as server:
            path = {"env": {**os.environ, "LD_LIBRARY_PATH": str(self.package / "lib")}}
            self.assertEqual(run(self.folder / "calls", server.address, **path), "1\n")

    def headers(self):
        return sorted((self.package / "include/gluond").glob("*.h"))

    def test_each_header_compiles_by_itself_without_a_warning(self):
        self.assertIn("gluond.h", [header.name for header in self.headers()])
        cases = list(itertools.product(self.headers(), ("g++", "clang++"), ("c++17", "c++20")))

        def compiled(case):
            header, compiler, standard = case
            command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{self.package}/include"]
            command += ["-include", header, "-x", "c++", "/dev/null"]
            return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for (header, compiler, standard), ran in zip(cases, pool.map(compiled, cases)):
                with self.subTest(header=header.name, compiler=compiler, standard=standard):
                    self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_no_header_names_gRPC_or_protobuf(self):
        text = run("g++", "-std=c++20", "-E", "-P", f"-I{self.package}/include", self.package / "include/gluond/gluond.h")
        self.assertGreater(len(text), 100_000)
        self.assertEqual(re.findall(r".*(?:grpc|protobuf|nlohmann).*", text, re.IGNORECASE), [])

    def symbols(self, file, *flags):
        """Names that a file defines for others."""
        return sorted(
            set(line.split(" ", 2)[2] for line in run("nm", "-C", "--defined-only", "-g", *flags, file).splitlines() if " " in line)
        )

    def test_the_symbols_are_those_of_the_list(self):
        shared = [re.sub(r"^\w ", "", each) for each in self.symbols(self.package / f"lib/libgluond.so.{VERSION}", "-D")]
        others = [each for each in shared if not OPERATOR.match(each)]
        self.assertGreater(len(shared), len(others) + 600)
        self.assertEqual(others, SYMBOLS.read_text().splitlines(), "change the list, and the version as gluond/version.h says")
        for symbol in others:
            self.assertRegex(symbol, r"^(typeinfo (name )?for |vtable for )?gluond::client::")

    def test_the_archive_shows_the_same(self):
        shared = self.symbols(self.package / f"lib/libgluond.so.{VERSION}", "-D")
        self.assertEqual(self.symbols(self.package / "lib/libgluond.a"), shared)

    def test_the_versions_agree(self):
        header = (self.package / "include/gluond/version.h").read_text()
        self.assertIn(f'"{VERSION}"', header)
        numbers = [re.search(rf"GLUOND_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH")]
        self.assertEqual(".".join(numbers), VERSION)


if __name__ == "__main__":
    case_runner.main()
