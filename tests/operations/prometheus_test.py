"""Debian's Prometheus against a real server: it scrapes what we write, and takes our rules and the dashboard's queries."""

import contextlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import yaml

from tests import case_runner
from tests.server.watched_server import WatchedServer, get

FILES = pathlib.Path("deploy/prometheus")
DASHBOARD = pathlib.Path("deploy/grafana/gluond.json")


def program(name):
    path = shutil.which(name)
    assert path, f"{name} is not here; run deploy/setup.sh prometheus"
    return path


def promtool(*arguments, text=None):
    return subprocess.run([program("promtool"), *arguments], input=text, capture_output=True, text=True, timeout=60)


class Prometheus:
    """Prometheus with our configuration, but for the times, the port that it scrapes, and a token."""

    def __init__(self, port, token=None):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        config = (FILES / "prometheus.yml").read_text().replace("15s", "1s").replace("127.0.0.1:9100", f"127.0.0.1:{port}")
        if token is not None:
            (folder / "token").write_text(token)
            config += "    authorization: {credentials_file: token}\n"
        (folder / "prometheus.yml").write_text(config)
        (folder / "rules.yml").write_text((FILES / "rules.yml").read_text())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        self._process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={self._address}",
            ],
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def ask(self, path, **query):
        """The data of an answer; None: it is not there yet."""
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
            with urllib.request.urlopen(url, timeout=20) as reply:
                return json.load(reply)["data"]
        return None

    def await_value(self, query, expected):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            data = self.ask("query", query=query)
            values = data and [float(sample["value"][1]) for sample in data["result"]]
            if values == [expected]:
                return
            time.sleep(0.2)
        raise AssertionError(f"{query} is {values}, expected {expected}")


class PrometheusTest(unittest.TestCase):
    def test_promtool_takes_the_rules_and_the_configuration(self):
        for arguments in (("check", "rules", FILES / "rules.yml"), ("check", "config", FILES / "prometheus.yml")):
            result = promtool(*arguments)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_each_alert_fires_when_its_test_says(self):
        result = promtool("test", "rules", FILES / "rules_test.yml")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        alerts = re.findall(r"- alert: (\w+)", (FILES / "rules.yml").read_text())
        tested = re.findall(r"alertname: (\w+)\n *exp_alerts", (FILES / "rules_test.yml").read_text())
        self.assertEqual(sorted(alerts), sorted(set(tested)))

    def test_the_autoscaler_gets_the_mean_wait_of_each_pods_requests(self):
        (rule,) = yaml.safe_load((FILES / "adapter.yml").read_text())["rules"]
        query = rule["metricsQuery"].replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", 'namespace="ml"')
        series = {}
        for pod, model, phase, wait, requests in (
            ("busy", "a", "queue", 0.25, 8),
            ("busy", "b", "queue", 0.75, 24),
            ("busy", "b", "infer", 9, 24),
            ("idle", "a", "queue", 0, 0),
        ):
            labels = f'{{namespace="ml",pod="{pod}",model="{model}",phase="{phase}"}}'
            series[f"gluond_inference_phase_seconds_sum{labels}"] = f"5+{wait}x20"
            series[f"gluond_inference_phase_seconds_count{labels}"] = f"5+{requests}x20"
        waits = [{"labels": '{pod="busy"}', "value": 0.03125}, {"labels": '{pod="idle"}', "value": 0}]
        case = {
            "interval": "15s",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [{"expr": query, "eval_time": "4m", "exp_samples": waits}],
        }
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump({"tests": [case]}, file)
            file.flush()
            result = promtool("test", "rules", file.name)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_promtool_finds_nothing_to_better_in_the_names(self):
        with WatchedServer() as server:
            server.define()
            server.step()
            result = promtool("check", "metrics", text=get(server.port)[1])
            self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""))

    def test_it_scrapes_a_server_and_evaluates_the_rules_and_the_dashboard(self):
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(folder, "token")
            token.write_text("a-secret\n")
            with WatchedServer(f"--metrics_token_file={token}") as server, Prometheus(server.port, "a-secret") as prometheus:
                server.define()
                for _ in range(3):
                    server.step()
                prometheus.await_value("up", 1)
                prometheus.await_value('gluond_requests_total{code="OK",method="/gluond.v1.TrainingService/TrainStep"}', 3)
                prometheus.await_value('gluond_model_steps_total{model="m"}', 3)
                groups = prometheus.ask("rules")["groups"]
                self.assertEqual([rule["name"] for group in groups for rule in group["rules"] if rule["health"] == "err"], [])
                board = DASHBOARD.read_text().replace("$__rate_interval", "1m").replace("$job", "gluond").replace("$instance", ".*")
                queries = [target["expr"] for panel in json.loads(board)["panels"] for target in panel["targets"]]
                self.assertGreater(len(queries), 20)
                for query in queries:
                    self.assertIsNotNone(prometheus.ask("query", query=query), query)

    def test_without_the_token_it_sees_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(folder, "token")
            token.write_text("a-secret\n")
            with WatchedServer(f"--metrics_token_file={token}") as server, Prometheus(server.port, "another") as prometheus:
                prometheus.await_value("up", 0)


if __name__ == "__main__":
    case_runner.main()
