"""The rows of run.py that are about published versions, beside training and alone (--only serving).

`gluond load` asks; it runs on the processors of the server, as everything here does. A row that has a limit is the median
of the rounds' ratios. --only serving:WORD takes the rows with that word in their names, --quick one round of short ones.
"""

import base64
import contextlib
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

from sides import BIN, ROOT, Side, servers, wait_for

ROWS = ("throughput", "batching", "poisson", "training", "peer", "publishing", "tls", "metrics")
CALLERS = 32
# A sample's bytes, as the echo gets them.
BYTES = {"lenet": 28 * 28 * 4, "wide": 2048 * 4, "resnet50": 3 * 224 * 224 * 4}


class Serving:
    def __init__(self, rounds, quick, ort):
        self.ort = ort
        self.rounds = 1 if quick else min(rounds, 3)
        self.seconds = 2 if quick else 4
        self.open_seconds = 5 if quick else 60

    # Programs.

    def gluond(self, *arguments):
        command = [str(BIN / "client/cli/gluond"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
        return done.stdout

    def load(self, address, *arguments, seconds=None, **flags):
        """What the load generator reports."""
        flags = {"address": address, "duration": f"{seconds or self.seconds}s", **flags}
        report = json.loads(self.gluond("load", *arguments, "--json", *(f"--{name}={value}" for name, value in flags.items())))
        if report["failed"]:
            raise SystemExit(f"requests failed: {report['errors']}")
        return report

    @contextlib.contextmanager
    def server(self, *flags, wrapper=()):
        """A server of its own: its address, its folder and its process."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            command = [
                *wrapper,
                BIN / "server/gluond-server",
                "--address=127.0.0.1:0",
                "--devices=cpu",
                f"--port_file={folder / 'port'}",
                *flags,
            ]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                yield wait_for(folder / "port", process, 120), folder, process
            finally:
                process.terminate()
                process.wait()

    def side(self, network, steps, *address, **environment):
        return Side(network, [BIN / "tests/bench/step_bench", network, steps, *address], **environment)

    def publish(self, address, network, served=None, batch=0, delay_us=0, tls_ca=""):
        """A version of a new model of that network."""
        side = self.side(network, 1, address, GLUOND_TLS_CA=tls_ca)
        model = side.ask("define").strip()
        self.gluond(
            "publish",
            model,
            f"--served={served or network}",
            f"--address={address}",
            f"--max_batch_size={batch}",
            f"--max_queue_delay_us={delay_us}",
            f"--tls_ca={tls_ca}",
        )
        side.stop()

    def row(self, what, ours, other, against, unit, limit):
        """One row of the table: figures by round."""
        ratio = statistics.median(a / b for a, b in zip(ours, other))
        print(
            f"| {what} | {statistics.median(ours):.3f} {unit} | {against} {statistics.median(other):.3f} {unit} | {ratio:.3f} | "
            f"{limit} |",
            flush=True,
        )

    def infer_ms(self, network, samples, steps):
        """The engine's time for a batch."""
        side = self.side(network, steps)
        figure = float(side.ask(f"infer {samples}"))
        side.stop()
        return figure

    def echo(self, address, network, concurrency):
        """The same for a bare server that gives these bytes back."""
        request = {"op": "_copy", "inputs": [{"raw": base64.b64encode(bytes(BYTES[network])).decode()}]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(request, file)
            file.flush()
            return self.load(address, method="gluond.v1.OperatorService/Invoke", request=f"@{file.name}", concurrency=concurrency)

    def answered(self, address):
        """The requests that versions of this server have answered: the one but last column of the table."""
        table = self.gluond("versions", f"--address={address}").splitlines()[1:]
        return sum(int(re.split(r"\s{2,}", line.strip())[-2]) for line in table)

    # Rows.

    def throughput(self):
        """LeNet and 32 callers, against what an echo and the engine would take one after the other."""
        ours, bound = [], []
        with servers() as (address, echo_address):
            self.publish(address, "lenet", batch=CALLERS)
            self.load(address, "lenet", concurrency=CALLERS, seconds=1)
            for _ in range(self.rounds):
                ours.append(self.load(address, "lenet", concurrency=CALLERS)["throughput"])
                a_call = 1 / self.echo(echo_address, "lenet", CALLERS)["throughput"]
                bound.append(1 / (a_call + self.infer_ms("lenet", CALLERS, 100) / 1e3 / CALLERS))
        self.row("LeNet, 32 callers, batches", ours, bound, "an echo and the engine", "1/s", "0.7 or more")

    def batching(self):
        """An MLP of 4 x 2048 and 32 callers, with batches and without."""
        on, off = [], []
        with self.server() as (address, *_):
            self.publish(address, "wide", served="on", batch=CALLERS)
            self.publish(address, "wide", served="off")
            for _ in range(self.rounds):
                on.append(self.load(address, "on", concurrency=CALLERS)["throughput"])
                off.append(self.load(address, "off", concurrency=CALLERS)["throughput"])
        self.row("MLP of 4 x 2048, 32 callers, batches", on, off, "each request alone", "1/s", "3 or more")

    def poisson(self):
        """p99 of random arrivals at half of the most, against the longest wait for a batch and four batches' time."""
        delay_us = 2000
        with self.server() as (address, *_):
            self.publish(address, "lenet", batch=CALLERS, delay_us=delay_us)
            most = self.load(address, "lenet", concurrency=CALLERS)["throughput"]
            report = self.load(address, "lenet", rate=round(most / 2), seconds=self.open_seconds)
        bound = delay_us / 1e3 + 4 * self.infer_ms("lenet", CALLERS, 100)
        self.row(
            f"LeNet, p99 at {most / 2:.0f} requests/s",
            [report["latency_ms"]["p99"]],
            [bound],
            "max_queue_delay and 4 batches",
            "ms",
            "1.0",
        )

    def training(self):
        """p99 at a fifth of the most, while ResNet-20 trains and alone; and the steps beside it, and alone."""
        beside, alone, steps_beside, steps_alone = [], [], [], []
        with self.server() as (address, *_):
            self.publish(address, "lenet", batch=CALLERS)
            rate = round(self.load(address, "lenet", concurrency=CALLERS)["throughput"] / 5)
            trainer = self.side("resnet20", max(10, 8 * self.seconds), address)
            trainer.ask("wire")
            for _ in range(self.rounds):
                time.sleep(0.5)
                alone.append(self.load(address, "lenet", rate=rate, seconds=2 * self.seconds)["latency_ms"]["p99"])
                steps_alone.append(float(trainer.ask("wire")))
                figures = []
                stop = threading.Event()

                def train():
                    while not stop.is_set():
                        figures.append(float(trainer.ask("wire")))

                thread = threading.Thread(target=train)
                thread.start()
                time.sleep(0.5)
                beside.append(self.load(address, "lenet", rate=rate, seconds=2 * self.seconds)["latency_ms"]["p99"])
                stop.set()
                thread.join()
                steps_beside.append(figures[0])
            trainer.stop()
        self.row(f"LeNet, p99 at {rate} requests/s, while ResNet-20 trains", beside, alone, "without training", "ms", "2")
        self.row(
            "ResNet-20 TrainStep, beside these requests", steps_alone, steps_beside, "alone, and beside them", "ms", "0.6 or more"
        )

    def peer(self):
        """p50 of a lone request, against onnxruntime in process and an echo of the same bytes."""
        if not self.ort:
            print(
                "| LeNet and ResNet-50, batch 1, p50 |  | onnxruntime: name a Python that has it by --ort |  | report |", flush=True
            )
            return
        for network in ("lenet", "resnet50"):
            ours, other = [], []
            peer = Side("onnxruntime", [self.ort, ROOT / "tests/bench/peer_onnxruntime.py", network], OMP_NUM_THREADS="2")
            with servers() as (address, echo_address):
                self.publish(address, network)
                for _ in range(self.rounds):
                    ours.append(self.load(address, network, concurrency=1)["latency_ms"]["p50"])
                    echo = self.echo(echo_address, network, 1)["latency_ms"]["p50"]
                    other.append(float(peer.ask(str(self.seconds))) + echo)
            peer.stop()
            self.row(f"{network}, batch 1, p50", ours, other, "onnxruntime and an echo", "ms", "report")

    def publishing(self):
        """Steps of ResNet-20 in which a publish falls, against the others."""
        with self.server() as (address, *_):
            trainer = self.side("resnet20", 40 if self.rounds == 1 else 400, address)
            model = trainer.ask("define").strip()
            stop = threading.Event()
            publishes = []

            def publish():
                while not stop.is_set() and len(publishes) < 50:
                    begin = time.time()
                    self.gluond("publish", model, f"--address={address}")
                    publishes.append((begin, time.time()))
                    stop.wait(0.3)

            thread = threading.Thread(target=publish)
            thread.start()
            steps = [tuple(map(float, each.split(":"))) for each in trainer.ask("steps").split()]
            stop.set()
            thread.join()
            trainer.stop()
        beside = [end - begin for begin, end in steps if any(begin < b < end or a < begin < b for a, b in publishes)]
        others = [end - begin for begin, end in steps if not any(begin < b and a < end for a, b in publishes)]
        if beside and others:
            self.row(
                f"ResNet-20 TrainStep in which one of {len(publishes)} publishes falls",
                [1e3 * statistics.median(beside)],
                [1e3 * statistics.median(others)],
                "other steps",
                "ms",
                "2",
            )

    def tls(self):
        """A lone request of LeNet, encrypted and not. Each round has servers of its own: two of one kind differ by a third."""
        encrypted, plain = [], []
        with tempfile.TemporaryDirectory() as folder:
            self.gluond("certificates", folder)
            authority = f"{folder}/ca.pem"
            for _ in range(self.rounds):
                with self.server() as (address, *_), self.server(
                    f"--tls_cert={folder}/server.pem", f"--tls_key={folder}/server.key"
                ) as (secret, *_):
                    self.publish(address, "lenet")
                    self.publish(secret, "lenet", tls_ca=authority)
                    plain.append(self.load(address, "lenet", concurrency=1)["latency_ms"]["p50"])
                    encrypted.append(self.load(secret, "lenet", concurrency=1, tls_ca=authority)["latency_ms"]["p50"])
        self.row("LeNet, batch 1, p50, encrypted", encrypted, plain, "without encryption", "ms", "1.15")

    def metrics(self):
        """Instructions of a call of LeNet, with metrics that are looked at and logs, and without: by callgrind."""
        if not shutil.which("valgrind"):
            print("| instructions of a call, metrics and logs on |  | needs valgrind |  | 1.02 |", flush=True)
            return
        on, off = self.instructions("--metrics_address=127.0.0.1:0", "--access_log=/dev/null"), self.instructions()
        self.row(
            "instructions of a ModelInfer of LeNet, metrics and a line for each call on", [on], [off], "off", "million", "1.02"
        )

    def instructions(self, *flags):
        """Millions of a call, once all is warm. Callgrind is a hundred times slower than a processor: few calls."""
        calls = 200
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "calls"
            wrapper = ("valgrind", "--tool=callgrind", "--instr-atstart=yes", f"--callgrind-out-file={out}")
            with self.server(*flags, wrapper=wrapper) as (address, _, process):
                self.publish(address, "lenet")
                self.load(address, "lenet", concurrency=1, seconds=10)
                subprocess.run(["callgrind_control", "-z", str(process.pid)], check=True, capture_output=True)
                before = self.answered(address)
                while self.answered(address) - before < calls:
                    self.load(address, "lenet", concurrency=1, seconds=5)
                done = self.answered(address) - before
                subprocess.run(["callgrind_control", "-d", str(process.pid)], check=True, capture_output=True)
            total = max(
                int(line.split()[1])
                for dump in pathlib.Path(folder).glob("calls*")
                for line in dump.read_text().splitlines()
                if line.startswith("totals:")
            )
            return total / done / 1e6


def rows_of(word):
    """The rows that `--only` asks for."""
    if not word.startswith("serving:"):
        return ROWS
    return [row for row in ROWS if word.partition(":")[2] in row]


def measure(options):
    """Prints the rows."""
    serving = Serving(options.rounds, options.quick, options.ort)
    for row in rows_of(options.only):
        getattr(serving, row)()
