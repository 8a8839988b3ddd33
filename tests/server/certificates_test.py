"""Certificates of the server and of its clients: what is encrypted, who calls, and files of them that change."""

import shutil
import subprocess
import time

from tests import case_runner
from tests.server import exposition
from tests.server.identity_fixture import STATUS, IdentityCase
from tests.server.running_server import BINARY, RunningServer
from tests.server.watched_server import get


class CertificatesTest(IdentityCase):
    def test_encryption_with_tokens(self):
        folder = self.certificates("tls")
        other = self.certificates("other")
        token = self.token("alice", "infer")
        server = self.server(*self.tls(folder), f"--identities={self.identities}")
        self.assertEqual(self.ask(self.channel(server, folder), self.INFO, token)[0], STATUS.OK)
        self.assertEqual(self.ask(self.channel(server, folder), self.INFO)[0], STATUS.UNAUTHENTICATED)
        self.assertEqual(self.ask(self.channel(server, other), self.INFO, token)[0], STATUS.UNAVAILABLE)
        self.assertEqual(self.ask(self.channel(server), self.INFO, token)[0], STATUS.UNAVAILABLE)
        self.assertEqual(self.ask(self.channel(server, folder), "grpc.health.v1.Health/Check")[0], STATUS.OK)

    def test_a_clients_certificate_says_who_calls(self):
        folder = self.certificates("tls", "--client=shop.example.org")
        server = self.server(*self.tls(folder), f"--tls_client_ca={folder}/ca.pem", f"--identities={self.identities}")
        ask = lambda client, path: self.ask(self.channel(server, folder, client), path)[0]
        self.assertEqual(ask(folder, self.INFO), STATUS.UNAUTHENTICATED)  # A good certificate of nobody whom it knows.
        with self.identities.open("a") as file:
            file.write("shop infer certificate:shop.example.org\n")
        self.until(lambda: ask(folder, self.INFO) is STATUS.OK)
        self.assertEqual(ask(folder, "gluond.v1.ModelService/DeleteModel"), STATUS.PERMISSION_DENIED)
        self.assertEqual(ask(None, "grpc.health.v1.Health/Check"), STATUS.UNAVAILABLE)
        for name, flags in (("other", ("--client=shop.example.org",)), ("expired", ("--client=shop.example.org", "--days=-1"))):
            self.assertEqual(ask(self.certificates(name, *flags), self.INFO), STATUS.UNAVAILABLE, name)

    def test_without_a_file_of_identities_each_good_certificate_may_do_all(self):
        folder = self.certificates("tls")
        server = self.server(*self.tls(folder), f"--tls_client_ca={folder}/ca.pem")
        channel = self.channel(server, folder, folder)
        self.assertEqual(self.ask(channel, "gluond.v1.ModelService/ListModels")[0], STATUS.OK)
        self.assertEqual(self.ask(channel, self.INFO, "made-up")[0], STATUS.UNAUTHENTICATED)
        for name, common_name, says in (("nameless", None, "no common name and no DNS name"), ("torn", "a\nb", "says nobody")):
            code, said = self.ask(self.channel(server, folder, self.client_certificate(folder, name, common_name)), self.INFO)
            self.assertEqual(code, STATUS.UNAUTHENTICATED)
            self.assertIn(says, said)

    def test_changed_certificates_are_taken_up(self):
        folder = self.certificates("tls")
        old = folder / "old"
        old.mkdir()
        (old / "ca.pem").write_bytes((folder / "ca.pem").read_bytes())
        server = self.server(*self.tls(folder))
        self.assertEqual(self.ask(self.channel(server, old), self.INFO)[0], STATUS.OK)
        self.certificates("tls")
        self.until(lambda: self.ask(self.channel(server, folder), self.INFO)[0] is STATUS.OK)
        self.assertEqual(self.ask(self.channel(server, old), self.INFO)[0], STATUS.UNAVAILABLE)

    def test_changed_files_that_are_no_good_certificates_change_nothing(self):
        folder, other = self.certificates("tls"), self.certificates("other")
        with (self.folder / "stderr").open("w") as stderr:
            server = self.server(*self.tls(folder), f"--tls_client_ca={folder}/ca.pem", stderr=stderr)
        told = (self.folder / "stderr").read_text
        client = self.folder / "client"
        shutil.copytree(folder, client)
        ask = lambda: self.ask(self.channel(server, client, client), self.INFO)[0]
        good = {name: (folder / name).read_bytes() for name in ("server.pem", "server.key", "ca.pem")}
        damaged = good["ca.pem"] + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
        for name, bad, says in (
            ("server.pem", b"garbage\n", "server.pem has no certificate"),
            ("server.key", (other / "server.key").read_bytes(), "server.key is not the key of"),
            ("ca.pem", b"garbage\n", "ca.pem has no certificate"),
            ("ca.pem", damaged, "ca.pem has a certificate that is damaged"),
            ("server.key", None, "server.key cannot be read"),
        ):
            with self.subTest(says=says):
                before = told().count(says)
                self.replace(folder / name, bad)
                self.until(lambda: told().count(says) > before)
                self.assertEqual(ask(), STATUS.OK)
                self.replace(folder / name, good[name])
                self.assertEqual(told().count(says), before + 1)
        for name in good:
            self.replace(folder / name, (other / name).read_bytes())
        trusting = self.folder / "trusting"
        shutil.copytree(other, trusting)
        self.until(lambda: self.ask(self.channel(server, trusting, trusting), self.INFO)[0] is STATUS.OK)
        self.assertEqual(ask(), STATUS.UNAVAILABLE)

    def replace(self, path, data):
        """At once, as operators do; None: the file is gone."""
        if data is None:
            return path.unlink()
        new = path.with_suffix(".new")
        new.write_bytes(data)
        new.rename(path)

    def test_wrong_certificates_end_the_start(self):
        folder, other = self.certificates("tls"), self.certificates("other")
        expired = self.certificates("expired", "--days=-1")
        (self.folder / "nonsense").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n")
        for flags, expected in (
            ((f"--tls_cert={folder}/server.pem",), "--tls_key"),
            ((f"--tls_client_ca={folder}/ca.pem",), "--tls_cert"),
            ((f"--tls_cert={folder}/server.pem", f"--tls_key={other}/server.key"), "is not the key"),
            (self.tls(expired), "expired"),
            (self.tls(self.folder / "nowhere"), "cannot be read"),
            ((f"--tls_cert={self.folder}/nonsense", f"--tls_key={folder}/server.key"), "PEM"),
            ((*self.tls(folder), f"--tls_client_ca={self.folder}/nonsense"), "--tls_client_ca"),
        ):
            ended = subprocess.run(
                [BINARY, "--devices=cpu", "--address=127.0.0.1:0", *flags], capture_output=True, text=True, timeout=60
            )
            self.assertEqual(ended.returncode, 1, flags)
            self.assertIn(expected, ended.stderr)

    def test_the_end_of_certificates_is_a_metric(self):
        folder = self.certificates("tls", "--days=10")
        server = self.server(*self.tls(folder), f"--tls_client_ca={folder}/ca.pem", "--metrics_address=127.0.0.1:0")
        line = ""
        while "metrics on port" not in line:
            line = server.process.stdout.readline()
        family = exposition.parse(get(int(line.split()[-1]))[1])["gluond_certificate_expiry_timestamp_seconds"]
        ends = {dict(labels)["flag"]: end for (_, labels), end in family.samples.items()}
        self.assertEqual(set(ends), {"--tls_cert", "--tls_client_ca"})
        for flag, end in ends.items():
            self.assertAlmostEqual(end, time.time() + 10 * 86400, delta=3600, msg=flag)

    def test_a_public_address_wants_encryption_and_a_question_who_calls(self):
        folder = self.certificates("tls")
        self.token("alice", "infer")
        for flags in (self.tls(folder), (f"--identities={self.identities}",)):
            ended = subprocess.run(
                [BINARY, "--devices=cpu", "--address=0.0.0.0:0", *flags], capture_output=True, text=True, timeout=60
            )
            self.assertEqual(ended.returncode, 1)
            self.assertIn("--identities", ended.stderr)
        with RunningServer(*self.tls(folder), f"--identities={self.identities}", "--address=0.0.0.0:0") as server:
            self.assertEqual(server.stop()[0], 0)


if __name__ == "__main__":
    case_runner.main()
