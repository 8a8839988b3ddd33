"""Servers that ask who calls: a file of identities, certificates, tokens, and calls with them."""

import contextlib
import datetime
import pathlib
import subprocess
import tempfile
import unittest

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.server.running_server import BINARY, RunningServer, Waits

COMMAND = pathlib.Path("client/cli/gluond").absolute()
STATUS = grpc.StatusCode


def command(*arguments, **options):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60, **options)


class IdentityCase(Waits, unittest.TestCase):
    def setUp(self):
        self._exits = contextlib.ExitStack()
        self.addCleanup(self._exits.close)
        self.folder = pathlib.Path(self._exits.enter_context(tempfile.TemporaryDirectory()))
        self.identities = self.folder / "identities"
        self.identities.write_text("# Nobody yet.\n")

    def token(self, name, roles):
        """Makes a token; the server's file gets its line."""
        made = command("token", name, f"--roles={roles}", f"--file={self.folder / name}.token")
        self.assertEqual(made.returncode, 0, made.stderr)
        with self.identities.open("a") as file:
            file.write(made.stdout)
        return (self.folder / f"{name}.token").read_text().strip()

    def certificates(self, name, *flags):
        made = command("certificates", self.folder / name, *flags)
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.folder / name

    def client_certificate(self, authority, folder, common_name=None, *names):
        """The folder of a client's certificate by an authority of `certificates`, with other names in its extension."""
        read = lambda load, name, *more: load((authority / name).read_bytes(), *more)
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.timezone.utc)
        kind, text = (x509.NameOID.COMMON_NAME, common_name) if common_name else (x509.NameOID.ORGANIZATION_NAME, "x")
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(kind, text)]))
            .issuer_name(read(x509.load_pem_x509_certificate, "ca.pem").subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(read(serialization.load_pem_private_key, "ca.key", None), hashes.SHA256())
        folder = self.folder / folder
        folder.mkdir()
        (folder / "client.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / "client.key").write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        return folder

    def server(self, *flags, **options):
        return self._exits.enter_context(RunningServer(*flags, **options))

    def start_fails(self, *flags):
        """What a server says that does not start."""
        ended = subprocess.run(
            [BINARY, "--devices=cpu", "--address=127.0.0.1:0", *flags], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(ended.returncode, 1, flags)
        return ended.stderr

    def tls(self, folder):
        return f"--tls_cert={folder}/server.pem", f"--tls_key={folder}/server.key"

    def channel(self, server, authority=None, client=None):
        """A channel: encrypted where an authority's folder is given."""
        if authority is None:
            return self._exits.enter_context(grpc.insecure_channel(server.address))
        read = lambda folder, name: (folder / name).read_bytes() if folder else None
        credentials = grpc.ssl_channel_credentials(
            read(authority, "ca.pem"), read(client, "client.key"), read(client, "client.pem")
        )
        return self._exits.enter_context(grpc.secure_channel(server.address, credentials))

    def ask(self, channel, path, token=None, request=b"", metadata=(), timeout=10):
        """The code of the answer, and the answer or the message."""
        metadata = (*metadata, *((("authorization", f"Bearer {token}"),) if token else ()))
        try:
            return STATUS.OK, channel.unary_unary(f"/{path}")(request, metadata=metadata, timeout=timeout)
        except grpc.RpcError as error:
            return error.code(), error.details()

    INFO = "gluond.v1.ServerService/GetServerInfo"
