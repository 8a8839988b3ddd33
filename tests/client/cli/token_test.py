"""`gluond token`: a real server takes the tokens that it makes, and the lines and keys that it prints."""

import base64
import json
import pathlib
import subprocess
import tempfile
import unittest

import grpc
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests import case_runner
from tests.server.running_server import RunningServer

_BIN = pathlib.Path("client/cli/gluond").absolute()
_INFO, _DELETE, _PUBLISH = (
    "gluond.v1.ServerService/GetServerInfo",
    "gluond.v1.ModelService/DeleteModel",
    "gluond.v1.ServingService/PublishModel",
)
_CLAIMS = ("--issuer=https://login.example.org", "--audience=gluond")
_JWT = ("--jwt_issuer=https://login.example.org", "--jwt_audience=gluond")
_CODE = grpc.StatusCode


def pem(key, encryption=serialization.NoEncryption()):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


class TokenTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def command(self, *arguments):
        return subprocess.run([_BIN, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)

    def printed(self, *arguments):
        """What a command for the token prints for the server."""
        made = self.command("token", *arguments)
        self.assertEqual(made.returncode, 0, made.stderr)
        return made.stdout

    def read(self, file):
        self.assertEqual((self.folder / file).stat().st_mode & 0o777, 0o600)
        return (self.folder / file).read_text().strip()

    def start(self, *flags):
        server = self.enterContext(RunningServer(*flags))
        self.channel = self.enterContext(grpc.insecure_channel(server.address))
        return server

    def ask(self, token, path=_INFO):
        """The code of the answer, and the message of an error."""
        try:
            self.channel.unary_unary(f"/{path}")(b"", metadata=(("authorization", f"Bearer {token}"),), timeout=20)
            return _CODE.OK, ""
        except grpc.RpcError as error:
            return error.code(), error.details()

    def test_a_server_takes_a_token_of_a_caller_of_any_name_and_of_a_tenants(self):
        names = ("alice", "acme/alice", "#Ann 100% Lee", "system:serviceaccount:ml:trainer", "spiffe://acme/x")
        files = (
            "alice.token",
            "acme.alice.token",
            "#Ann 100% Lee.token",
            "system:serviceaccount:ml:trainer.token",
            "spiffe:..acme.x.token",
        )
        (self.folder / "identities").write_text("".join(self.printed(name, "--roles=train") for name in names))
        (self.folder / "tenants").write_text("acme\n")
        self.start(f"--identities={self.folder}/identities", f"--tenants={self.folder}/tenants")
        for file in files:
            self.assertEqual(self.ask(self.read(file)), (_CODE.OK, ""), file)

    def test_every_command_without_a_token_says_where_to_name_one(self):
        (self.folder / "identities").write_text(self.printed("alice", "--roles=admin"))
        server = self.start(f"--identities={self.folder}/identities")
        for command in ("models", "versions", "operators", "datasets"):
            refused = self.command(command, f"--address={server.address}")
            self.assertEqual(refused.returncode, 1, command)
            self.assertIn("Name the file of a token: token_file (--token_file, or GLUOND_TOKEN_FILE).", refused.stderr, command)
            answered = self.command(command, f"--address={server.address}", "--token_file=alice.token")
            self.assertEqual(answered.returncode, 0, (command, answered.stderr))

    def test_a_server_takes_a_json_web_token_and_what_is_printed_is_its_key(self):
        made = self.command("certificates", "tls")
        self.assertEqual(made.returncode, 0, made.stderr)
        (self.folder / "rsa.key").write_text(pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)))
        keys = ""
        for file, key in (("curve", "tls/ca.key"), ("rsa", "rsa.key")):
            keys += self.printed("alice", f"--file={file}", "--roles=train,infer", f"--jwt_key={key}", *_CLAIMS)
        (self.folder / "keys").write_text(keys)
        audit = self.folder / "audit"
        server = self.start(f"--jwt_keys={self.folder}/keys", *_JWT, f"--audit_log={audit}")
        for file in ("curve", "rsa"):
            token = self.read(file)
            self.assertEqual(self.ask(token), (_CODE.OK, ""), file)
            self.assertNotIn(self.ask(token, _DELETE)[0], (_CODE.PERMISSION_DENIED, _CODE.UNAUTHENTICATED))
            self.assertEqual(self.ask(token, _PUBLISH)[0], _CODE.PERMISSION_DENIED)
        server.stop()
        self.assertEqual({json.loads(line)["caller"] for line in audit.read_text().splitlines()}, {"alice"})

    def test_a_json_web_token_is_good_for_its_lifetime_at_its_server(self):
        (self.folder / "key").write_text(pem(ec.generate_private_key(ec.SECP256R1())))
        make = lambda file, *flags: self.printed("bob", f"--file={file}", "--jwt_key=key", *_CLAIMS, *flags)
        (self.folder / "keys").write_text(make("good"))
        make("expired", "--lifetime=-2m")
        make("other", "--audience=other")
        make("foreign", "--issuer=me")
        self.start(f"--jwt_keys={self.folder}/keys", *_JWT)
        self.assertEqual(self.ask(self.read("good")), (_CODE.OK, ""))
        for file, says in (("expired", "it has expired"), ("other", "its audience"), ("foreign", "its issuer")):
            code, said = self.ask(self.read(file))
            self.assertEqual(code, _CODE.UNAUTHENTICATED, file)
            self.assertIn(says, said)
        claims = json.loads(base64.urlsafe_b64decode(self.read("good").split(".")[1] + "=="))
        self.assertEqual(claims["exp"] - claims["iat"], 3600)

    def test_mistakes_make_no_token(self):
        key = ec.generate_private_key(ec.SECP256R1())
        for name, text in (
            ("curve", pem(key)),
            ("locked", pem(key, serialization.BestAvailableEncryption(b"secret"))),
            ("wide", pem(ec.generate_private_key(ec.SECP384R1()))),
            ("text", "no key\n"),
            ("short", pem(rsa.generate_private_key(public_exponent=65537, key_size=1024))),
        ):
            (self.folder / name).write_text(text)
        for arguments, says in (
            ((), "Give a NAME"),
            (("a\nb",), "'a\\nb' is no caller's name"),
            (("a" * 257,), "256 bytes"),
            (("a/",), "TENANT/NAME"),
            (("a", "--roles=boss"), "'boss' is no role"),
            (("a", "--roles="), "'' is no role"),
            (("a", "--issuer=me"), "--jwt_key"),
            (("a", "--jwt_key=curve"), "--issuer and --audience"),
            (("a", "--jwt_key=curve", "--issuer=me"), "--issuer and --audience"),
            *(
                ((("a", f"--jwt_key={file}", *_CLAIMS)), says)
                for file, says in (
                    ("none", "--jwt_key=none cannot be read"),
                    ("text", "no private key in PEM"),
                    ("locked", "without a passphrase"),
                    ("wide", "P-256"),
                    ("short", "2048 bits"),
                )
            ),
        ):
            made = self.command("token", *arguments)
            self.assertEqual((made.returncode, made.stdout), (1, ""), arguments)
            self.assertIn(says, made.stderr)
            self.assertFalse((self.folder / "a.token").exists(), arguments)

    def test_certificates_have_a_life_that_they_can_tell(self):
        made = self.command("certificates", "tls", "--days=99999999")
        self.assertEqual(made.returncode, 1)
        self.assertIn("--days is 99999999; want", made.stderr)

    def test_a_client_sends_a_token_of_one_line_and_no_name_of_elsewhere_gets_it(self):
        (self.folder / "one").write_text("abc\n")
        (self.folder / "two").write_text("abc\ndef\n")
        for file, address, says in (
            ("two", "127.0.0.1:1", "token_file=two has no token"),
            ("one", "127.example.org:1", "in clear"),
        ):
            asked = self.command("models", f"--address={address}", f"--token_file={file}")
            self.assertEqual(asked.returncode, 1)
            self.assertIn(says, asked.stderr)


if __name__ == "__main__":
    case_runner.main()
