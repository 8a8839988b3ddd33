"""A connection that carries others' calls, a proxy's or a Unix socket's, lends nobody its rights."""

from cryptography import x509

from tests import case_runner
from tests.server.identity_fixture import STATUS, IdentityCase

OWN = (
    "gluond.v1.ModelService/ListModels",
    "gluond.v1.ModelService/DeleteModel",
    "gluond.v1.ServingService/ReloadServing",
    "inference.GRPCInferenceService/LogSettings",
    "grpc.health.v1.Health/List",
    IdentityCase.INFO,
)
HEALTH = "grpc.health.v1.Health/Check"
REFUSED = (STATUS.UNAUTHENTICATED, STATUS.PERMISSION_DENIED)


class ProxyTest(IdentityCase):
    def on_socket(self, *flags):
        """A channel to a server on a Unix socket."""
        socket = self.folder / f"socket{len(list(self.folder.iterdir()))}"
        server = self.server(f"--address=unix:{socket}", *flags)
        server.address = f"unix:{socket}"
        return self.channel(server)

    def codes(self, channel, token=None):
        return [self.ask(channel, path, token)[0] for path in OWN]

    def test_a_call_without_a_token_is_nobodys_on_a_unix_socket_where_callers_have_names(self):
        token = self.token("shop", "infer")
        channel = self.on_socket(f"--identities={self.identities}")
        self.assertEqual(self.codes(channel), [STATUS.UNAUTHENTICATED] * len(OWN))
        self.assertEqual(self.ask(channel, self.INFO, token)[0], STATUS.OK)
        self.assertEqual(self.ask(channel, "gluond.v1.ModelService/DeleteModel", token)[0], STATUS.PERMISSION_DENIED)
        self.assertEqual(self.ask(channel, HEALTH)[0], STATUS.OK)

    def test_a_unix_socket_says_who_calls_where_nothing_else_does_or_a_flag_has_it_so(self):
        self.token("shop", "infer")
        for flags in ((), (f"--identities={self.identities}", "--unix_identity=local")):
            self.assertFalse(set(self.codes(self.on_socket(*flags))) & set(REFUSED), flags)

    def test_a_proxys_certificate_is_good_for_calls_with_tokens_alone(self):
        folder = self.certificates("tls", "--client=edge.example.org")
        token = self.token("shop", "infer")
        with self.identities.open("a") as file:
            file.write("edge proxy certificate:edge.example.org\nboss admin certificate:boss\n")
        server = self.server(*self.tls(folder), f"--tls_client_ca={folder}/ca.pem", f"--identities={self.identities}")
        proxy = self.channel(server, folder, folder)
        for path in OWN:
            code, said = self.ask(proxy, path)
            self.assertEqual(code, STATUS.UNAUTHENTICATED, path)
            self.assertIn("lends its rights to nobody", said)
        self.assertEqual(self.ask(proxy, self.INFO, token)[0], STATUS.OK)
        self.assertEqual(self.ask(proxy, "gluond.v1.ModelService/DeleteModel", token)[0], STATUS.PERMISSION_DENIED)
        self.assertEqual(self.ask(proxy, HEALTH)[0], STATUS.OK)
        # Whatever else the certificate is called.
        both = self.client_certificate(folder, "both", "boss", x509.DNSName("edge.example.org"))
        self.assertEqual(self.ask(self.channel(server, folder, both), self.INFO)[0], STATUS.UNAUTHENTICATED)
        boss = self.client_certificate(folder, "boss", "boss")
        self.assertEqual(self.ask(self.channel(server, folder, boss), self.INFO)[0], STATUS.OK)

    def test_a_flag_that_would_keep_nobody_out_ends_the_start(self):
        for flags, says in ((("--unix_identity=none",), "--identities"), (("--unix_identity=root",), "none, local or nothing")):
            with self.subTest(flags=flags):
                self.assertIn(says, self.start_fails(*flags))


if __name__ == "__main__":
    case_runner.main()
