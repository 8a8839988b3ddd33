"""Callers have the names that the world gives them, in tokens, certificates and the file of identities."""

import hashlib
import json

from cryptography import x509

from google.protobuf import json_format

from gluond.v1 import model_pb2, parameters_pb2
from tests import case_runner
from tests.server.identity_fixture import STATUS, IdentityCase

DELETE = "gluond.v1.ModelService/DeleteModel"
NAMES = {  # As they are said; as they are joined to others, and told.
    "system:serviceaccount:ml:trainer": "system:serviceaccount:ml:trainer",
    "spiffe://acme/trainer": "spiffe:%2F%2Facme%2Ftrainer",
    "ann@corp.com": "ann@corp.com",
    "auth0|5f7c": "auth0%7C5f7c",
    "alice": "alice",
}


class CallersNamesTest(IdentityCase):
    def audited(self, audit):
        return [line["caller"] for line in map(json.loads, audit.read_text().splitlines()) if "caller" in line]

    def test_a_line_of_the_file_may_have_any_name(self):
        audit = self.folder / "audit"
        self.identities.write_text("".join(f"{name} train sha256:{hashlib.sha256(name.encode()).hexdigest()}\n" for name in NAMES))
        server = self.server(f"--identities={self.identities}", f"--audit_log={audit}")
        for name in NAMES:
            self.assertEqual(self.ask(self.channel(server), DELETE, name)[0], STATUS.NOT_FOUND, name)
        server.stop()
        self.assertEqual(self.audited(audit), list(NAMES.values()))

    def test_a_uri_that_begins_like_a_tenant_is_of_no_tenant(self):
        tenants = self.folder / "tenants"
        tenants.write_text("acme\nspiffe\n")
        self.identities.write_text(
            "".join(
                f"{name} admin sha256:{hashlib.sha256(name.encode()).hexdigest()}\n"
                for name in ("spiffe://acme/x", "acme/spiffe://y")
            )
        )
        channel = self.channel(self.server(f"--identities={self.identities}", f"--tenants={tenants}"))
        settings = "inference.GRPCInferenceService/LogSettings"  # A tenant's admin may not.
        self.assertEqual(self.ask(channel, settings, "spiffe://acme/x")[0], STATUS.OK)
        code, said = self.ask(channel, settings, "acme/spiffe://y")
        self.assertEqual(code, STATUS.PERMISSION_DENIED)
        self.assertIn("admin of no tenant", said)

    def test_a_certificate_may_have_its_name_in_a_uri_or_an_address(self):
        folder = self.certificates("tls")
        self.identities.write_text(
            "mesh infer certificate:spiffe://acme/trainer\nann infer certificate:ann@corp.com\n" "lee infer certificate:Ann%20Lee\n"
        )
        server = self.server(*self.tls(folder), f"--tls_client_ca={folder}/ca.pem", f"--identities={self.identities}")
        anybody = self.server(*self.tls(folder), f"--tls_client_ca={folder}/ca.pem")
        uri, mail = x509.UniformResourceIdentifier, x509.RFC822Name
        for client, names, knows in (
            ("uri", (None, uri("spiffe://acme/trainer")), True),
            ("mail", (None, mail("ann@corp.com")), True),
            ("common", ("Ann Lee",), True),
            ("stranger", (None, uri("spiffe://acme/other")), False),
        ):
            self.client_certificate(folder, client, *names)
            code, said = self.ask(self.channel(server, folder, self.folder / client), self.INFO)
            self.assertEqual(code, STATUS.OK if knows else STATUS.UNAUTHENTICATED, said)
            # Where there is no file, each good certificate with a name may do all.
            self.assertEqual(self.ask(self.channel(anybody, folder, self.folder / client), DELETE)[0], STATUS.NOT_FOUND, client)

    def test_a_caller_and_his_client_are_not_another_caller_and_hers(self):
        """Unencoded, the client `d` of `b/c` and the client `c/d` of `b` would share their numbers."""
        names = ("b%2Fc", "b")
        self.identities.write_text("".join(f"{name} train sha256:{hashlib.sha256(name.encode()).hexdigest()}\n" for name in names))
        channel = self.channel(self.server(f"--identities={self.identities}"))
        define = json_format.ParseDict(
            {
                "model": "m",
                "variables": [{"name": "data", "shape": [1, 3]}],
                "block": {"block": "Dense", "attributes": {"units": 2}},
            },
            model_pb2.DefineModelRequest(),
        )
        self.assertEqual(self.ask(channel, "gluond.v1.ModelService/DefineModel", "b", define.SerializeToString())[0], STATUS.OK)
        first = parameters_pb2.InitializeParametersRequest(model="m")
        for caller, client in (("b%2Fc", "d"), ("b", "c/d")):
            first.call.client_id, first.call.sequence = client, 1
            code, answer = self.ask(channel, "gluond.v1.ModelService/InitializeParameters", caller, first.SerializeToString())
            self.assertEqual(code, STATUS.OK, answer)
            self.assertFalse(parameters_pb2.InitializeParametersResponse.FromString(answer).replayed, caller)


if __name__ == "__main__":
    case_runner.main()
