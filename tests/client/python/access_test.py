"""The Python client and a server that wants encryption, and to know who calls."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import gluond as mx

from tests import case_runner
from tests.server.running_server import RunningServer

COMMAND = pathlib.Path("client/cli/gluond").absolute()


class AccessTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with contextlib.ExitStack() as exits:
            cls.folder = pathlib.Path(exits.enter_context(tempfile.TemporaryDirectory()))
            made = subprocess.run([COMMAND, "certificates", cls.folder], capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr
            for name, roles in (("alice", "train,publish"), ("shop", "infer")):
                line = subprocess.run(
                    [COMMAND, "token", name, f"--roles={roles}", f"--file={cls.folder}/{name}.token"],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                with (cls.folder / "identities").open("a") as file:
                    file.write(line)
            cls.server = exits.enter_context(
                RunningServer(
                    f"--tls_cert={cls.folder}/server.pem",
                    f"--tls_key={cls.folder}/server.key",
                    f"--identities={cls.folder}/identities",
                )
            )
            cls.address = cls.server.address
            cls.addClassCleanup(exits.pop_all().close)

    def file(self, name):
        return str(self.folder / name)

    def test_who_may_only_infer_infers_and_is_told_what_he_may_not(self):
        mx.connect(self.address, tls_ca=self.file("ca.pem"), token_file=self.file("alice.token"))
        self.addCleanup(mx.connect)
        net = mx.gluon.nn.Dense(2, use_bias=False)
        net.initialize(mx.init.One())
        net.hybridize()
        net(mx.nd.ones((1, 4)))
        net.save_as_model("ones", replace=True).publish()
        for connected in (True, False):
            program = (
                "import gluond as mx, numpy as np\n"
                + (
                    f"mx.connect('{self.address}', tls_ca='{self.file('ca.pem')}', token_file='{self.file('shop.token')}')\n"
                    if connected
                    else ""
                )
                + "print(mx.remote.Model('ones').infer(np.ones((1, 4), 'float32')).tolist())\n"
                "try: mx.nd.ones(3).asnumpy()\n"
                "except mx.MXNetError as error: print(error)\n"
            )
            ran = subprocess.run(
                [sys.executable, "-c", program],
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
                env={
                    **os.environ,
                    "PYTHONPATH": ":".join(sys.path),
                    "GLUOND_ADDRESS": self.address,
                    "GLUOND_TLS_CA": self.file("ca.pem"),
                    "GLUOND_TOKEN_FILE": self.file("shop.token"),
                },
            )
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("[[4.0, 4.0]]\n", ran.stdout)
            self.assertRegex(ran.stdout, "opens no session: .*'shop' has the roles infer")

    def train_publish_and_serve(self):
        net = mx.gluon.nn.Dense(2)
        net.initialize()
        net.hybridize()
        data = mx.nd.ones((3, 4))
        with mx.autograd.record():
            loss = net(data).sum()
        loss.backward()
        net.save_as_model("net", replace=True)
        published = mx.remote.Model("net").publish(labels="stable")
        self.assertEqual(published.version, 1)

        class Twice(mx.operator.CustomOp):
            """Computed here, called back over a stream of its own."""

            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] * 2)

        @mx.operator.register("twice")
        class TwiceProp(mx.operator.CustomOpProp):  # pylint: disable=unused-variable
            """Its description."""

            def create_operator(self, ctx, shapes, dtypes):
                return Twice()

        self.assertEqual(mx.nd.Custom(data, op_type="twice").asnumpy().sum(), 24)
        mx.remote.Model("net").delete()

    def test_all_calls_carry_the_token_over_tls(self):
        mx.connect(self.address, tls_ca=self.file("ca.pem"), token_file=self.file("alice.token"))
        self.train_publish_and_serve()

    def test_the_environment_says_it_as_well(self):
        variables = {
            "GLUOND_ADDRESS": self.address,
            "GLUOND_TLS_CA": self.file("ca.pem"),
            "GLUOND_TOKEN_FILE": self.file("alice.token"),
        }
        with mock.patch.dict(os.environ, variables):
            mx.connect()
        self.assertEqual(mx.nd.ones((2,)).asnumpy().sum(), 2)

    def test_refusals_say_what_to_do(self):
        authority, alice = self.file("ca.pem"), self.file("alice.token")
        for given, expected in (
            ({"tls_ca": authority}, r"who calls: .* Name the file of a token: mx.connect\(..., token_file=...\), or"),
            ({}, r"does it want TLS\? Name its authority: mx.connect\(..., tls_ca=...\), or GLUOND_TLS_CA\."),
            ({"tls_ca": authority, "token_file": self.file("shop.token")}, "wants train"),
            ({"tls_ca": self.file("no.pem")}, "cannot be read"),
            ({"tls_ca": authority, "tls_cert": authority}, "tls_key"),
        ):
            with self.assertRaisesRegex(mx.MXNetError, expected):
                mx.connect(self.address, **given)
                mx.nd.ones(1)  # Who may infer connects, and has no arrays.
        for address in ("192.0.2.1:1", "127.example.org:1"):
            with self.assertRaisesRegex(mx.MXNetError, "in clear"):
                mx.connect(address, token_file=alice)
        (self.folder / "two.token").write_text("abc\ndef\n")
        with self.assertRaisesRegex(mx.MXNetError, "two.token has no token"):
            mx.connect(self.address, tls_ca=authority, token_file=self.file("two.token"))


if __name__ == "__main__":
    case_runner.main()
