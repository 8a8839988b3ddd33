"""tritonclient, unmodified: tensors by the machine's shared memory."""

from tests.peers import installed  # The first import: it goes on in another Python.
import os
import pathlib
import unittest

import numpy as np
import tritonclient.grpc as triton
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from tests import case_runner
from tests.peers.triton_case import DATA
from tests.server.published import PublishingServer

BYTES = 4096


class SharedMemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(PublishingServer("--shared_memory"))
        cls.weight = np.random.RandomState(1).randn(3, 4).astype(np.float32)
        cls.server.define_dense("dense", cls.weight.tolist(), [0.5, -0.25, 1])
        cls.server.publish("dense", max_batch_size=8)
        cls.server.define_echo("flags", "BOOL")
        cls.server.publish("flags", max_batch_size=8)

    def setUp(self):
        self.client = triton.InferenceServerClient(self.server.address)
        self.addCleanup(self.client.close)
        self.addCleanup(self.client.unregister_system_shared_memory)
        self.key = f"/gluond-peer-{os.getpid()}"
        self.region = shm.create_shared_memory_region("region", self.key, BYTES)
        self.addCleanup(shm.destroy_shared_memory_region, self.region)

    def register(self, name="region", bytes=BYTES, offset=0):
        self.client.register_system_shared_memory(name, self.key, bytes, offset)

    def infer(
        self,
        model="dense",
        size=DATA.nbytes,
        offset=0,
        out_size=1024,
        out_offset=2048,
        region="region",
        shape=DATA.shape,
        datatype="FP32",
        name="data",
        output="output",
    ):
        given, wanted = triton.InferInput(name, shape, datatype), triton.InferRequestedOutput(output)
        given.set_shared_memory(region, size, offset)
        wanted.set_shared_memory(region, out_size, out_offset)
        return self.client.infer(model, [given], outputs=[wanted])

    def expect_refused(self, status, says, call, *arguments, **named):
        with self.assertRaises(InferenceServerException) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.status(), f"StatusCode.{status}", caught.exception)
        self.assertIn(says, caught.exception.message())

    def test_inputs_and_outputs_lie_there(self):
        self.register()
        shm.set_shared_memory_region(self.region, [DATA], offset=64)
        result = self.infer(offset=64)
        output = result.get_output("output")
        self.assertEqual((output.datatype, [*output.shape]), ("FP32", [2, 3]))
        self.assertEqual(output.parameters["shared_memory_byte_size"].int64_param, 24)
        got = shm.get_contents_as_numpy(self.region, np.float32, [2, 3], offset=2048)
        np.testing.assert_allclose(got, DATA @ self.weight.T + np.float32([0.5, -0.25, 1]), rtol=1e-5, atol=1e-6)

    def test_one_tensor_by_it_and_another_in_the_message(self):
        self.register()
        given, wanted = triton.InferInput("data", DATA.shape, "FP32"), triton.InferRequestedOutput("output")
        given.set_data_from_numpy(DATA)
        wanted.set_shared_memory("region", 24)
        self.client.infer("dense", [given], outputs=[wanted])
        from_message = np.array(shm.get_contents_as_numpy(self.region, np.float32, [2, 3]))
        shm.set_shared_memory_region(self.region, [DATA])
        given = triton.InferInput("data", DATA.shape, "FP32")
        given.set_shared_memory("region", DATA.nbytes)
        np.testing.assert_array_equal(self.client.infer("dense", [given]).as_numpy("output"), from_message)

    def test_a_stream_takes_it_too(self):
        self.register()
        shm.set_shared_memory_region(self.region, [DATA])
        answers = []
        self.client.start_stream(lambda result, error: answers.append((result, error)))
        given = triton.InferInput("data", DATA.shape, "FP32")
        for size in DATA.nbytes, DATA.nbytes - 1, DATA.nbytes:
            given.set_shared_memory("region", size)
            self.client.async_stream_infer("dense", [given])
        self.client.stop_stream()
        self.assertEqual([error is None for _, error in answers], [True, False, True])

    def test_the_server_tells_what_it_knows(self):
        self.assertIn("system_shared_memory", self.client.get_server_metadata().extensions)
        self.register()
        self.register("other", 100, 28)
        regions = self.client.get_system_shared_memory_status().regions
        self.assertEqual(
            {name: (each.key, each.offset, each.byte_size) for name, each in regions.items()},
            {"region": (self.key, 0, BYTES), "other": (self.key, 28, 100)},
        )
        self.assertEqual([*self.client.get_system_shared_memory_status("other").regions], ["other"])
        self.client.unregister_system_shared_memory("other")
        self.expect_refused("NOT_FOUND", "'other'", self.client.get_system_shared_memory_status, "other")
        self.client.unregister_system_shared_memory()
        self.assertEqual(len(self.client.get_system_shared_memory_status().regions), 0)

    def test_what_cannot_be_registered_is_refused(self):
        client = self.client
        self.register()
        register = client.register_system_shared_memory
        self.expect_refused("ALREADY_EXISTS", "'region'", register, "region", self.key, BYTES)
        self.expect_refused("INVALID_ARGUMENT", "has 4096 bytes", register, "a", self.key, BYTES + 1)
        self.expect_refused("INVALID_ARGUMENT", "has 4096 bytes", register, "a", self.key, 1, BYTES)
        self.expect_refused("INVALID_ARGUMENT", "in no object", register, "a", self.key, 0)
        self.expect_refused("NOT_FOUND", "cannot be opened", register, "a", "/gluond-none", 1)
        for key in "/etc/passwd", "../../etc/passwd", "/../etc/passwd", "":
            self.expect_refused("INVALID_ARGUMENT", "no key of shared memory", register, "a", key, 1)

    @unittest.skipUnless(pathlib.Path("/dev/shm").is_dir(), "shared memory has no folder here")
    def test_a_link_is_followed_nowhere(self):
        link = pathlib.Path(f"/dev/shm/gluond-link-{os.getpid()}")
        link.symlink_to("/etc/passwd")
        self.addCleanup(link.unlink)
        self.expect_refused("NOT_FOUND", "cannot be opened", self.client.register_system_shared_memory, "a", f"/{link.name}", 1)

    def test_tensors_that_do_not_lie_in_their_region_are_refused(self):
        self.register()
        for says, named in (
            ("takes 32 bytes, but shared_memory_byte_size is 31", {"size": 31}),
            ("is 33", {"size": 33}),
            ("do not lie in its 4096 bytes", {"offset": BYTES - 31}),
            ("0 or more", {"offset": -1}),
            ("do not lie in its", {"offset": 2**62}),
            ("takes 24 bytes", {"out_size": 23}),
            ("do not lie in its", {"out_offset": BYTES - 23}),
            ("dimension -2", {"shape": [-2, 4]}),
            ("2^48", {"shape": [2**40, 2**40]}),
            ("no datatype", {"datatype": "FP31"}),
        ):
            self.expect_refused("INVALID_ARGUMENT", says, self.infer, **named)
        self.expect_refused("NOT_FOUND", "no region 'regio' of shared memory; did you mean 'region'?", self.infer, region="regio")
        self.infer()

    def test_truth_values_there_are_checked(self):
        self.register()
        shm.set_shared_memory_region(self.region, [np.uint8([0, 1, 7])])
        self.expect_refused(
            "INVALID_ARGUMENT", "want 0 or 1", self.infer, "flags", 3, shape=[1, 3], datatype="BOOL", name="x", output="y"
        )

    def test_a_region_that_shrinks_is_an_error_of_its_requests(self):
        self.register()
        os.truncate(f"/dev/shm{self.key}", 16)
        self.expect_refused("INVALID_ARGUMENT", "has 16 bytes", self.infer)
        os.truncate(f"/dev/shm{self.key}", BYTES)
        self.infer()


if __name__ == "__main__":
    case_runner.main()
