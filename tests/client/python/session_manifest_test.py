"""mx.attach of a manifest of anybody's: it runs nothing, and says what is wrong with it."""

import json
import random
import sys

import gluond as mx
import numpy as np
from gluond import gluon, nd
from gluond._proto import command_pb2
from gluond._remote import keys
from gluond._wire import connect, encoding
from tests import case_runner
from tests.client.python.saved_case import SessionCase, trained


class Audit:
    """Notes each piece of code that is run from text or from a pickle, and each program that is started."""

    def __init__(self):
        self.seen, self._on = [], False
        sys.addaudithook(self._note)

    def begin(self):
        self.seen, self._on = [], True

    def end(self):
        self._on = False

    def _note(self, event, arguments):
        if self._on and event in ("exec", "pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen"):
            self.seen.append((event, arguments))


audit = Audit()


class StrangerTest(SessionCase):
    """A manifest of anybody's runs nothing."""

    def save(self, manifest, **arrays):
        session = connect.current()
        known = keys.find(session, "run") or ""
        saved = session.request(
            encoding.message(
                encoding.SAVE_SESSION,
                command_pb2.Command.SaveSession(
                    name="run", key=known, manifest=manifest, arrays={name: each.handle for name, each in arrays.items()}
                ),
            )
        ).saved
        keys.store(session, "run", saved.key)

    def refused(self, manifest):
        self.save(manifest, **{"0": nd.ones(2)})
        with self.assertRaises(mx.MXNetError):
            mx.attach("run")

    def test_what_is_not_of_this_client(self):
        def one(thing, **more):
            return json.dumps({"format": 1, "things": {"x": thing}, "arrays": [{"device": "cpu"}], "parameters": [], **more})

        self.save(one({"kind": "array", "array": 0}), **{"0": nd.ones(2)})
        self.assert_equal(mx.attach("run").x, np.ones(2))  # So that the others are refused for what they are.
        for text in (
            "",
            "no JSON",
            "3",
            "[]",
            "{}",
            '{"format": 2}',
            one(1, things=3),
            one(1, arrays=[{}, {}]),
            one(1, arrays=7),
            "[" * 100000,
            one({"kind": "os.system", "items": "true"}),
            one({"kind": "__class__"}),
            one({"kind": ["list"]}),
            one({}),
            one({"kind": "array", "array": 9}),
            one({"kind": "array", "array": "0"}),
            one({"kind": "array"}),
            one({"kind": "numpy", "dtype": "O", "shape": [1], "array": 0}),
            one({"kind": "numpy", "dtype": "<f4", "shape": [9], "array": 0}),
            one({"kind": "scalar", "dtype": "O", "hex": "00" * 8}),
            one({"kind": "scalar", "dtype": "V8", "hex": "00" * 8}),
            one({"kind": "scalar", "dtype": "<f4", "hex": "zz"}),
            one({"kind": "tuple", "items": 5}),
            one({"kind": "dict", "items": [1]}),
            one(json.loads("[" * 200 + "]" * 200)),
            one({"kind": "loss", "class": "Loss", "attributes": {}, "hybridized": False}),
            one({"kind": "loss", "class": "system", "attributes": {}, "hybridized": False}),
            one({"kind": "parameter", "parameter": 0}),
            one({"kind": "block", "no_graph": "x"}),
            one({"kind": "block", "graph": "{}", "inputs": [], "form": "array", "names": {}, "structure": {}}),
            one(
                {
                    "kind": "trainer",
                    "parameters": [],
                    "optimizer": {"class": "__import__", "tables": {}},
                    "arguments": {},
                    "scale": 1,
                    "states": [],
                }
            ),
        ):
            with self.subTest(text[:80]):
                self.refused(text)

    def test_the_audit_notes_code(self):
        audit.begin()
        exec("1")
        audit.end()
        self.assertEqual([event for event, _ in audit.seen], ["exec"])

    def test_a_manifest_with_anything_changed(self):
        net, trainer = trained(lr_scheduler=mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1))
        mx.save_session(
            "whole", net=net, trainer=trainer, s=np.float32(1), a=np.eye(2), t=({"x": nd.ones(1)},), loss_of=gluon.loss.L2Loss()
        )
        session = connect.current()
        opened = session.request(
            encoding.message(encoding.OPEN_SAVED, command_pb2.Command.OpenSaved(name="whole", key=keys.find(session, "whole")))
        ).saved
        arrays = {
            name: nd.zeros(tuple(each.shape), dtype="uint8" if each.dtype == 3 else "float32")
            for name, each in opened.arrays.items()
        }
        self.save(opened.manifest, **arrays)
        self.assertEqual(list(mx.attach("run")), ["net", "trainer", "s", "a", "t", "loss_of"])
        audit.begin()
        self.addCleanup(audit.end)
        seeded = random.Random(3)
        refused = 0
        for _ in range(300):
            content = json.loads(opened.manifest)
            places = list(places_in(content))
            container, at = seeded.choice(places)
            container[at] = seeded.choice([None, -1, 10**30, 1.5, "", "O", "__class__", [], {}, True, {"kind": "list"}])
            self.save(json.dumps(content), **arrays)
            try:
                mx.attach("run")
            except mx.MXNetError:
                refused += 1
        self.assertGreater(refused, 100)
        self.assertEqual(audit.seen, [])


def places_in(content):
    for at in content if isinstance(content, dict) else range(len(content)):
        yield content, at
        if isinstance(content[at], (dict, list)):
            yield from places_in(content[at])


if __name__ == "__main__":
    case_runner.main()
