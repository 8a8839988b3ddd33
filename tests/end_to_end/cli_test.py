"""The path of a user, with the real binaries: serve, train on real images, restart, load, predict."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from tests import case_runner
from tests.end_to_end import fashion_subset
from tests.server import running_server

_BIN = pathlib.Path("client/cli/gluond")


def gluond(*arguments, server=None, timeout=300):
    """Runs the command; returns its finished process."""
    address = [f"--address={server.address}"] if server else []
    return subprocess.run([str(_BIN), *arguments, *address], capture_output=True, text=True, timeout=timeout, check=False)


class CommandLineTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)

    def serve(self, *flags):
        return self.enterContext(running_server.RunningServer(f"--store_dir={self.folder / 'store'}", *flags))

    def test_trains_saves_restarts_loads_and_predicts(self):
        data = self.folder / "fashion-mnist"
        data.mkdir()
        fashion_subset.write(data, {"train": 6000, "t10k": 1000})
        server = self.serve()
        curve = self.folder / "curve.svg"
        trained = gluond("train", "--recipe=mlp", "--epochs=2", f"--data={data}", f"--curve={curve}", "--seed=3", server=server)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        accuracy = float(re.search(r"test accuracy: (0\.\d+)\n\Z", trained.stdout)[1])
        self.assertGreater(accuracy, 0.7)
        self.assertIn("<svg", curve.read_text())
        self.assertEqual(server.stop()[0], 0)

        again = self.serve()
        predicted = gluond("predict", "--model=mlp", "--checkpoint=mlp", f"--data={data}", server=again)
        self.assertEqual(predicted.returncode, 0, predicted.stderr)
        self.assertRegex(predicted.stdout, r"\d+ of 10 right\n\Z")
        self.assertIn("mlp", gluond("checkpoints", server=again).stdout)

        published = gluond("publish", "mlp", "--max_batch_size=16", server=again)
        self.assertEqual(published.stdout, "published mlp as version 1 of mlp\n", published.stderr)
        for asked in ("--published", "--version=stable", "--version=1"):
            self.assertEqual(gluond("predict", "--model=mlp", asked, f"--data={data}", server=again).stdout, predicted.stdout)
        missing = gluond("predict", "--model=mlp", "--version=2", f"--data={data}", server=again)
        self.assertIn("'mlp' has no version '2'; there are 1, stable", missing.stderr)
        gluond("publish", "mlp", "--labels=canary", server=again)
        listed = gluond("versions", "mlp", "--weights=1:9,2:1", server=again).stdout
        self.assertRegex(listed, r"mlp +1 +READY +stable +9 +mlp +16 ")
        self.assertRegex(listed, r"mlp +2 +READY +canary +1 +mlp +0 ")
        kept = gluond("versions", "mlp", "--retire=2", server=again)
        self.assertIn("label 'canary'", kept.stderr)
        rolled = gluond("versions", "mlp", "--labels=canary=0", "--weights=none", "--retire=2", server=again)
        self.assertEqual(len(rolled.stdout.splitlines()), 2, rolled.stdout)
        self.assertIn("LABEL=VERSION", gluond("versions", "mlp", "--labels=x", server=again).stderr)
        unknown = gluond("versions", "mpl", server=again)
        self.assertEqual((unknown.returncode, unknown.stdout), (1, ""))
        self.assertIn("no model is served as 'mpl'; served: mlp", unknown.stderr)
        for option, number in (("max_batch_size", 2**32 + 32), ("max_queue_delay_us", -5), ("instances", -1)):
            self.assertIn(
                f"--{option} is {number}; want 0 to", gluond("publish", "mlp", f"--{option}={number}", server=again).stderr
            )

        (manifest,) = (self.folder / "store" / "mlp").glob("v*/manifest.json")
        manifest.write_bytes(manifest.read_bytes()[:-9])
        self.assertRegex(gluond("checkpoints", server=again).stdout, r"\nmlp +damaged: .*manifest\.json")
        self.assertEqual(gluond("checkpoints", "mlp", "--delete", server=again).returncode, 0)

    def test_a_wrong_command_line_has_a_status_of_its_own_and_the_nearest_name(self):
        for arguments, told in (
            (("tain",), "there is no command 'tain' (did you mean 'train'?)"),
            (("models", "--adress=x"), "there is no option --adress (did you mean '--address'?)"),
            (("models", "--delete"), "--delete wants the NAME of a model"),
            (("load", "--concurrency=many"), "--concurrency wants a whole number"),
        ):
            wrong = gluond(*arguments)
            self.assertEqual(wrong.returncode, 2, arguments)
            self.assertIn(told, wrong.stderr)

    def test_lists_are_json_for_programs(self):
        server = self.serve()
        self.assertEqual(gluond("models", "--json", server=server).stdout, "")
        operators = [
            json.loads(line) for line in gluond("operators", "--json", "--contains=conv", server=server).stdout.splitlines()
        ]
        self.assertIn("Convolution", [each["name"] for each in operators])
        described = json.loads(gluond("operators", "Convolution", "--json", server=server).stdout)
        self.assertEqual(described["inputs"][0]["name"], "data")

    def test_it_tells_its_release(self):
        self.assertRegex(gluond("--version").stdout, r"\Agluond \d+\.\d+\.\d+ \((unknown|[0-9a-f]{12}(-dirty)?)\)\n\Z")

    def test_the_same_seed_trains_to_the_same_bits(self):
        data = self.folder / "fashion-mnist"
        data.mkdir()
        fashion_subset.write(data, {"train": 640, "t10k": 100})
        lines = []
        for _ in range(2):
            server = self.serve()
            run = gluond(
                "train", "--recipe=mlp", "--epochs=1", f"--data={data}", "--curve=-", "--checkpoint=-", "--replace", server=server
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            lines.append(gluond("models", server=server).stdout + re.sub(r"[\d.]+ images/s.*", "", run.stdout))
            server.stop()
        self.assertEqual(*lines)

    def test_a_training_goes_on_after_a_crash_of_the_server_to_the_same_bits(self):
        data = self.folder / "fashion-mnist"
        data.mkdir()
        fashion_subset.write(data, {"train": 640, "t10k": 100})
        server = self.serve("--checkpoint_every=50steps")

        def start(model, *options):
            return subprocess.Popen(
                [
                    str(_BIN),
                    "train",
                    "--recipe=mlp",
                    "--epochs=400",
                    f"--data={data}",
                    "--curve=-",
                    "--checkpoint=-",
                    f"--model={model}",
                    f"--address={server.address}",
                    *options,
                ],
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

        def step(model):
            listed = [json.loads(line) for line in gluond("models", "--json", server=server).stdout.splitlines()]
            return next((int(each["step"]) for each in listed if each["name"] == model), 0)

        calm = start("calm")
        last = calm.communicate(timeout=200)[0].splitlines()[-1]
        broken = start("broken")
        while step("broken") < 120:
            self.assertIsNone(broken.poll(), "it has ended before the crash")
        server.process.kill()
        server.process.communicate()
        told = broken.communicate(timeout=200)[1]
        self.assertEqual(broken.returncode, 1)
        self.assertIn("`gluond train --resume` with these options goes on", told)
        server.start()
        self.assertGreater(step("broken"), 0)
        said, told = start("broken", "--resume").communicate(timeout=200)
        self.assertRegex(said, r"\ngoing on after step \d+ of 4000\n", told)
        self.assertEqual(said.splitlines()[-1], last)
        self.assertEqual(step("broken"), 4000)
        nothing = start("none", "--resume")
        self.assertIn("none", nothing.communicate(timeout=200)[1])
        self.assertEqual(nothing.returncode, 1)

    def test_the_environment_names_the_server_unless_the_command_line_does(self):
        server = self.serve()
        nowhere = "127.0.0.1:1"
        for environment, arguments, found in (
            (server.address, [], True),
            (nowhere, [], False),
            (nowhere, [f"--address={server.address}"], True),
            (server.address, [f"--address={nowhere}"], False),
        ):
            with self.subTest(environment=environment, arguments=arguments):
                health = subprocess.run(
                    [str(_BIN), "health", "--wait=1s", *arguments],
                    capture_output=True,
                    text=True,
                    check=False,
                    env={**os.environ, "GLUOND_ADDRESS": environment},
                )
                self.assertEqual(health.returncode == 0, found, health.stderr)
                if not found:
                    self.assertIn(nowhere, health.stderr)
        empty = subprocess.run(
            [str(_BIN), "models", "--help"], capture_output=True, text=True, check=True, env={**os.environ, "GLUOND_ADDRESS": ""}
        )
        self.assertRegex(empty.stdout, r"--address=TEXT  \(default: 127.0.0.1:50051\)\n(.*\n)?.*GLUOND_ADDRESS")

    def test_lists_and_describes_operators(self):
        server = self.serve()
        self.assertIn("Convolution", gluond("operators", server=server).stdout)
        described = gluond("operators", "Convolution", server=server).stdout
        for word in ("num_filter", "kernel", "data", "weight"):
            self.assertIn(word, described)
        unknown = gluond("operators", "Convolutoin", server=server)
        self.assertNotEqual(unknown.returncode, 0)
        self.assertIn("Convolution", unknown.stderr)

    def test_load_generator_reports_percentiles_and_what_the_server_says(self):
        server = self.serve()
        good = gluond("load", "--duration=300ms", "--concurrency=2", server=server)
        self.assertEqual(good.returncode, 0, good.stderr)
        self.assertIn("p99", good.stdout.lower())
        bad = gluond("load", "--duration=200ms", '--request={"op": "no_such_operator"}', server=server)
        self.assertNotEqual(bad.returncode, 0)
        self.assertIn("no_such_operator", bad.stderr)

    def test_every_command_has_a_page_of_help(self):
        for command in ("serve", "train", "predict", "operators", "models", "checkpoints", "load", "health"):
            page = gluond(command, "--help")
            self.assertEqual(page.returncode, 0, command)
            self.assertGreater(len(page.stdout), 200, command)

    def test_health_of_a_server_that_is_gone_says_what_to_do(self):
        server = self.serve()
        self.assertEqual(gluond("health", server=server).returncode, 0)
        server.stop()
        gone = gluond("health", "--wait=0s", server=server)
        self.assertNotEqual(gone.returncode, 0)
        self.assertIn(server.address, gone.stderr)

    def test_serve_becomes_the_server(self):
        port_file = self.folder / "port"
        process = subprocess.Popen(
            [str(_BIN), "serve", "--address=127.0.0.1:0", f"--port_file={port_file}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 30
        while not port_file.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=30), 0)


class ExampleTest(unittest.TestCase):
    """The example of the C++ client's README."""

    def test_trains_two_moons(self):
        server = self.enterContext(running_server.RunningServer())
        run = subprocess.run(["client/cpp/example", server.address], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertGreater(float(re.search(r"accuracy: ([\d.]+)", run.stdout)[1]), 0.95)

    def test_is_the_readmes_and_has_at_most_25_lines(self):
        code = pathlib.Path("deploy/examples/cpp/moons.cc").read_text().splitlines()
        begin = next(i for i, line in enumerate(code) if not line.startswith(("#", "//")) and line)
        self.assertLessEqual(len(code[begin:]), 25)
        readme = pathlib.Path("client/cpp/README.md").read_text()
        self.assertIn("\n".join(code), readme)


if __name__ == "__main__":
    case_runner.main()
