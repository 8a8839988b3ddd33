"""JSON Web Tokens: who calls by them, and every way in which one is not good."""

import base64
import contextlib
import hashlib
import json
import pathlib
import queue
import subprocess
import tempfile
import time
import unittest

import grpc
from cryptography.hazmat.primitives import hashes, hmac, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from tests import case_runner
from tests.server.running_server import BINARY, RunningServer, Waits

STATUS = grpc.StatusCode
INFO, LIST, DELETE, PUBLISH = (
    "gluond.v1.ServerService/GetServerInfo",
    "gluond.v1.ModelService/ListModels",
    "gluond.v1.ModelService/DeleteModel",
    "gluond.v1.ServingService/PublishModel",
)
STREAM = "inference.GRPCInferenceService/ModelStreamInfer"
ISSUER, AUDIENCE = "https://login.example.org", "gluond"
FLAGS = (f"--jwt_issuer={ISSUER}", f"--jwt_audience={AUDIENCE}")


def encode(data):
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Signer:
    """A key and the tokens that it signs."""

    def __init__(self, key, algorithm):
        self.key, self.algorithm = key, algorithm

    def pem(self):
        return (
            self.key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
        )

    def sign(self, text):
        if self.algorithm == "RS256":
            return self.key.sign(text, padding.PKCS1v15(), hashes.SHA256())
        r, s = utils.decode_dss_signature(self.key.sign(text, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def token(self, header=None, **claims):
        """Signed; a claim that is None is left out."""
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "roles": ["train"], "exp": time.time() + 600} | claims
        head = {"alg": self.algorithm, "typ": "JWT"} | (header or {})
        text = ".".join(encode({key: value for key, value in part.items() if value is not None}) for part in (head, claims))
        return f"{text}.{encode(self.sign(text.encode()))}"


def rsa_signer(bits=2048):
    return Signer(rsa.generate_private_key(public_exponent=65537, key_size=bits), "RS256")


def ec_signer(curve=ec.SECP256R1):
    return Signer(ec.generate_private_key(curve()), "ES256")


class JwtTest(Waits, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rsa, cls.ec, cls.other_rsa, cls.other_ec = rsa_signer(), ec_signer(), rsa_signer(), ec_signer()

    def setUp(self):
        self._exits = contextlib.ExitStack()
        self.addCleanup(self._exits.close)
        self.folder = pathlib.Path(self._exits.enter_context(tempfile.TemporaryDirectory()))
        self.keys = self.folder / "keys.pem"
        self.keys.write_text(f"# Two keys.\n{self.rsa.pem()}kid: curve\n{self.ec.pem()}")

    def start(self, *flags):
        self.server = self._exits.enter_context(RunningServer(f"--jwt_keys={self.keys}", *FLAGS, *flags))
        self.channel = self.new_channel()

    def new_channel(self):
        options = [("grpc.use_local_subchannel_pool", 1)]  # A connection of its own.
        return self._exits.enter_context(grpc.insecure_channel(self.server.address, options))

    def ask(self, token, path=INFO):
        """The code of the answer, and the message of an error."""
        try:
            self.channel.unary_unary(f"/{path}")(b"", metadata=(("authorization", f"Bearer {token}"),), timeout=20)
            return STATUS.OK, ""
        except grpc.RpcError as error:
            return error.code(), error.details()

    def refused(self, says, token):
        code, said = self.ask(token)
        self.assertEqual(code, STATUS.UNAUTHENTICATED, says)
        self.assertIn(says, said)

    def test_both_algorithms_say_who_calls_and_what_he_may(self):
        audit = self.folder / "audit"
        self.start(f"--audit_log={audit}")
        names = ["alice", "system:serviceaccount:ml:trainer", "carol.k-1_x"]
        for signer, header, name in zip((self.rsa, self.ec, self.ec), ({}, {}, {"kid": "curve"}), names):
            token = signer.token(header, sub=name)
            self.assertEqual(self.ask(token), (STATUS.OK, ""), name)
            self.assertEqual(self.ask(token, PUBLISH)[0], STATUS.PERMISSION_DENIED)
            self.assertNotIn(self.ask(token, DELETE)[0], (STATUS.PERMISSION_DENIED, STATUS.UNAUTHENTICATED))
        self.server.stop()
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
        self.assertEqual([line["caller"] for line in lines if line["code"] == "PERMISSION_DENIED"], names)
        self.assertEqual([line["caller"] for line in lines if line["code"] != "PERMISSION_DENIED"], names)

    def test_a_tenants_caller_is_of_the_tenant(self):
        tenants = self.folder / "tenants"
        tenants.write_text("acme\n")
        self.start(f"--tenants={tenants}")
        self.assertEqual(self.ask(self.rsa.token(sub="acme/alice")), (STATUS.OK, ""))
        for name, says in (("globex/bob", "has no line"), ("acme", "is the name of a tenant")):
            code, said = self.ask(self.rsa.token(sub=name))
            self.assertEqual(code, STATUS.PERMISSION_DENIED, said)
            self.assertIn(says, said)

    def test_claims_have_several_forms(self):
        self.start("--jwt_name_claim=email.local", "--jwt_roles_claim=realm_access.roles", "--jwt_roles_prefix=gluond.")
        now = time.time()
        for claims in (
            {},
            {"aud": ["other", AUDIENCE]},
            {"exp": int(now) + 60},
            {"nbf": now - 1},
            {"nbf": now + 30},
            {"exp": now - 30},
            {"realm_access": {"roles": "gluond.train offline"}},
            {"extra": {"a": [{"b": None}]}},
        ):
            claims = {"email": {"local": "alice"}, "realm_access": {"roles": ["offline_access", "gluond.train"]}} | claims
            self.assertEqual(self.ask(self.rsa.token(**claims)), (STATUS.OK, ""), claims)

    def test_an_issuers_own_words_give_nothing_beside_a_prefix_or_a_map(self):  # jwt_roles_test has all forms.
        self.start(
            "--jwt_roles_claim=realm_access.roles", "--jwt_roles_prefix=gluond.", "--jwt_roles_map=ML Team=train,leads=publish"
        )
        token = lambda *roles: self.rsa.token(realm_access={"roles": roles})
        self.refused("has none of", token("admin", "offline_access"))
        for roles in (("gluond.train", "admin"), ("ML Team", "admin")):
            self.assertEqual(self.ask(token(*roles)), (STATUS.OK, ""))
            self.assertNotEqual(self.ask(token(*roles), DELETE)[0], STATUS.PERMISSION_DENIED)
            self.assertEqual(self.ask(token(*roles), PUBLISH)[0], STATUS.PERMISSION_DENIED)

    def test_a_token_that_is_not_good_is_refused(self):
        self.start()
        good = self.rsa.token(sub="mallory-was-here")
        head, claims, signature = good.split(".")
        now = time.time()
        edited = json.loads(base64.urlsafe_b64decode(claims + "==")) | {"roles": ["admin"]}
        none, hs256 = encode({"alg": "none"}), encode({"alg": "HS256", "typ": "JWT"})

        def with_hmac(secret):
            text = f"{hs256}.{claims}"
            maker = hmac.HMAC(secret, hashes.SHA256())
            maker.update(text.encode())
            return f"{text}.{encode(maker.finalize())}"

        pem = self.rsa.pem()
        token = self.rsa.token
        no_key = "no key that this server knows has signed it"
        cases = (
            (no_key, f"{none}.{claims}."),
            (no_key, f"{none}.{claims}.{signature}"),
            (no_key, f"{encode({'alg': 'nOnE'})}.{claims}."),
            (no_key, f"{encode({})}.{claims}.{signature}"),
            (no_key, f"{head}.{claims}."),
            (no_key, with_hmac(pem.encode())),
            (no_key, with_hmac(pem.strip().encode())),
            (no_key, with_hmac(b"")),
            (no_key, self.other_rsa.token()),
            (no_key, self.other_ec.token()),
            (no_key, self.ec.token({"kid": "another"})),
            (no_key, token({"alg": "ES256"})),
            (no_key, self.ec.token({"alg": "RS256"})),
            (no_key, token({"alg": "RS512"})),
            (no_key, f"{head}.{encode(edited)}.{signature}"),
            (no_key, f"{head}.{claims}.{signature[:-8]}AAAAAAAA"),
            ("extensions (crit)", token({"crit": ["b64"], "b64": False})),
            ("its issuer", token(iss="https://login.example.com")),
            ("its issuer", token(iss=None)),
            ("its issuer", token(iss=[ISSUER])),
            ("its audience", token(aud="other")),
            ("its audience", token(aud=None)),
            ("its audience", token(aud=[])),
            ("its audience", token(aud={"gluond": "gluond"})),
            ("it has expired", token(exp=now - 61)),
            ("it has no end", token(exp=None)),
            ("no number of seconds", token(exp="9999999999")),
            ("no number of seconds", token(exp=1e300)),
            ("it has expired", token(exp=-1)),
            ("not valid yet", token(nbf=now + 120)),
            ("no number of seconds", token(nbf={})),
            ("none of infer", token(roles=[])),
            ("none of infer", token(roles=None)),
            ("none of infer", token(roles=["boss"])),
            ("none of infer", token(roles={"train": True})),
            ("none of infer", token(roles=["trainer"])),
            ("none of infer", token(roles=["proxy"])),
            ("is no name", token(sub=None)),
            ("is no name", token(sub="")),
            ("is no name", token(sub="acme/")),
            ("is no name", token(sub=7)),
            ("is no name", token(sub="a" * 257)),
            ("is no name", token(sub="local\n")),
            ("no base64url", f"%.{claims}.{signature}"),
            ("no JSON object", f"{encode(b'[]')}.{claims}.{signature}"),
            ("too deep", f"{encode(b'[' * 3000)}.{claims}.{signature}"),
            ("no JSON object", f"..{signature}"),
            ("no JSON object", ".."),
            ("more than 8192 bytes", token(extra="a" * 7000)),
        )
        deep = {}
        for _ in range(20):
            deep = {"a": deep}
        for i, (says, bad) in enumerate((*cases, ("too deep", token(extra=deep)))):
            with self.subTest(case=i, says=says):
                if i % 16 == 0:
                    self.channel = self.new_channel()  # Many new tokens of one connection are refused as many.
                self.refused(says, bad)
        self.assertEqual(self.ask(good), (STATUS.OK, ""))
        _, _, log = self.server.stop()
        for secret in (signature[:20], claims[:20], "mallory", "boss"):
            self.assertNotIn(secret, log)

    def test_a_token_of_a_duplicated_claim_is_refused(self):
        self.start()
        claims = json.dumps({"iss": ISSUER, "aud": AUDIENCE, "sub": "a", "exp": time.time() + 60, "roles": ["infer"]})
        twice = claims[:-1] + ', "roles": ["admin"]}'
        text = f"{encode({'alg': 'RS256'})}.{encode(twice.encode())}"
        self.refused("no JSON object", f"{text}.{encode(self.rsa.sign(text.encode()))}")

    def test_a_token_ends_though_it_is_remembered(self):
        self.start("--jwt_leeway_seconds=0")
        token = self.rsa.token(exp=time.time() + 3)
        self.assertEqual(self.ask(token)[0], STATUS.OK)
        time.sleep(3.2)
        self.refused("it has expired", token)

    def test_keys_rotate_and_a_mistaken_file_changes_nothing(self):
        self.keys.write_text(f"kid: old\n{self.rsa.pem()}")
        self.start()
        old, new = self.rsa.token({"kid": "old"}), self.other_rsa.token({"kid": "new"})
        self.assertEqual(self.ask(old)[0], STATUS.OK)
        self.refused("no key", new)
        self.keys.write_text(f"kid: old\n{self.rsa.pem()}\nkid: new\n{self.other_rsa.pem()}")
        self.until(lambda: self.ask(new)[0] is STATUS.OK)
        self.keys.write_text("kid: new\n-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
        time.sleep(3)
        self.assertEqual(self.ask(old)[0], STATUS.OK)
        self.keys.write_text(f"kid: new\n{self.other_rsa.pem()}")
        self.until(lambda: self.ask(old)[0] is STATUS.UNAUTHENTICATED)  # Though it was remembered.
        self.assertEqual(self.ask(new)[0], STATUS.OK)
        _, _, log = self.server.stop()
        self.assertEqual(log.count("--jwt_keys, line 4"), 1, log)

    def open_stream(self, token):
        """A stream of inferences that has been answered once, and the queue of its requests."""
        requests = queue.Queue()
        self._exits.callback(requests.put, None)
        requests.put(b"")
        stream = self.channel.stream_stream(f"/{STREAM}")(
            iter(requests.get, None), timeout=60, metadata=(("authorization", f"Bearer {token}"),)
        )
        next(stream)
        return stream

    def ended(self, says, stream):
        error = stream.exception(timeout=20)
        self.assertEqual(error.code(), STATUS.UNAUTHENTICATED, error.details())
        self.assertIn(says, error.details())

    def test_open_streams_end_with_the_key_that_signed_their_tokens(self):
        self.start()
        gone, stays = (self.open_stream(signer.token(roles=["infer"])) for signer in (self.rsa, self.ec))
        self.keys.write_text(f"kid: curve\n{self.ec.pem()}\n{self.other_rsa.pem()}")
        self.ended("taken out the key that signed it", gone)
        time.sleep(2.5)  # Two looks more.
        self.assertTrue(stays.is_active())

    def test_open_streams_end_with_their_tenants_line(self):
        tenants = self.folder / "tenants"
        tenants.write_text("acme\nglobex\n")
        self.start(f"--tenants={tenants}")
        gone, stays = (self.open_stream(self.ec.token(sub=name, roles=["infer"])) for name in ("acme/alice", "globex/bob"))
        tenants.write_text("globex\n")
        error = gone.exception(timeout=20)
        self.assertEqual(error.code(), STATUS.PERMISSION_DENIED)
        self.assertIn("has no line", error.details())
        self.assertTrue(stays.is_active())

    def test_open_streams_end_with_their_tokens(self):
        self.start("--jwt_leeway_seconds=0")
        begun = time.time()
        short, long = (self.open_stream(self.rsa.token(roles=["infer"], exp=begun + seconds)) for seconds in (5, 600))
        time.sleep(3)
        self.assertTrue(short.is_active())
        self.ended("it has expired since this call was made", short)
        self.assertGreaterEqual(time.time(), begun + 5)
        self.assertTrue(long.is_active())

    def test_a_connection_with_many_new_tokens_is_refused_and_others_are_not(self):
        self.start()
        good = self.ec.token()
        self.assertEqual(self.ask(good)[0], STATUS.OK)
        flood = self.new_channel()
        call = flood.unary_unary(f"/{INFO}")
        calls = [call.future(b"", metadata=(("authorization", f"Bearer {good}{i}"),), timeout=60) for i in range(400)]
        codes = {one.code() for one in calls}
        self.assertEqual(codes, {STATUS.UNAUTHENTICATED, STATUS.RESOURCE_EXHAUSTED})
        self.assertEqual(self.ask(good)[0], STATUS.OK)
        self.assertEqual(self.ask(self.rsa.token())[0], STATUS.OK, "a new token of another connection")

    def test_a_unix_sockets_connections_are_told_apart(self):
        socket = self.folder / "socket"
        self.start(f"--address=unix:{socket}")
        self.server.address = f"unix:{socket}"
        self.channel = self.new_channel()
        flood = self.new_channel().unary_unary(f"/{INFO}")
        for i in range(10):  # A new second may begin meanwhile.
            bad = [flood.future(b"", metadata=(("authorization", f"Bearer a.b.{i}-{j}"),), timeout=60) for j in range(200)]
            self.assertIn(STATUS.RESOURCE_EXHAUSTED, {one.code() for one in bad})
            self.assertEqual(self.ask(self.ec.token(jti=str(i))), (STATUS.OK, ""))

    def test_tokens_of_the_file_of_identities_are_good_beside_them(self):
        identities = self.folder / "identities"
        identities.write_text(f"shop infer sha256:{hashlib.sha256(b'a secret').hexdigest()}\n")
        self.start(f"--identities={identities}")
        self.assertEqual(self.ask("a secret")[0], STATUS.OK)
        self.assertEqual(self.ask(self.ec.token())[0], STATUS.OK)
        self.assertEqual(self.ask("another secret")[0], STATUS.UNAUTHENTICATED)
        code, said = self.ask("", INFO)
        self.assertEqual(code, STATUS.UNAUTHENTICATED, said)

    def test_a_mistaken_file_or_flag_ends_the_start(self):
        private = self.rsa.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        rsa_pem, wrong_curve = self.rsa.pem(), ec_signer(ec.SECP384R1).pem()
        for text, flags, says in (
            ("", FLAGS, "no public key"),
            (private, FLAGS, "line 1: it begins a private key"),
            ("nonsense", FLAGS, "line 1: want"),
            (rsa_signer(1024).pem(), FLAGS, "2048 bits"),
            (wrong_curve, FLAGS, "P-256"),
            (rsa_pem[:-30], FLAGS, "does not end"),
            (f"kid:\n{rsa_pem}", FLAGS, "line 1: want a name"),
            (f"kid: a\n{rsa_pem}kid: a\n{rsa_pem}", FLAGS, "no other key has"),
            (rsa_pem * 17, FLAGS, "more than 16 keys"),
            (rsa_pem, FLAGS[:1], "--jwt_audience"),
            (rsa_pem, FLAGS[1:], "--jwt_issuer"),
            (rsa_pem, (*FLAGS, "--jwt_leeway_seconds=3601"), "--jwt_leeway_seconds"),
            (rsa_pem, (*FLAGS, "--jwt_roles_claim=realm_access.roles"), "--jwt_roles_prefix"),
            (rsa_pem, (*FLAGS, "--jwt_roles_map=boss"), "no WORD=ROLE"),
        ):
            self.keys.write_text(text)
            ended = subprocess.run(
                [BINARY, "--devices=cpu", "--address=127.0.0.1:0", f"--jwt_keys={self.keys}", *flags],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(ended.returncode, 1, says)
            self.assertIn(says, ended.stderr)


if __name__ == "__main__":
    case_runner.main()
