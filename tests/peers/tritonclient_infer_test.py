"""tritonclient, unmodified: inferences one by one, with numpy as the reference."""

from tests.peers import installed  # The first import: it goes on in another Python.
import unittest

import numpy as np
import tritonclient.grpc as triton

from tests import case_runner
from tests.peers.triton_case import DATA, DATATYPES, TritonCase, data, given, patient


class DatatypeTest(TritonCase):
    def test_each_goes_there_and_back_and_is_computed_with(self):
        for dtype, datatype, numpy_type in DATATYPES:
            with self.subTest(datatype):
                self.server.define(
                    datatype,
                    [["same", "identity", ["a"]], ["larger", "broadcast_maximum", ["a", "b"]]],
                    ["same", "larger"],
                    a=([-1, 3], dtype),
                    b=([-1, 3], dtype),
                )
                self.server.publish(datatype, max_batch_size=8)
                a = np.array([[0, 1, 2], [100, 1, 0]]).astype(numpy_type)
                b = np.array([[1, 0, 3], [5, 50, 0]]).astype(numpy_type)
                result = self.client.infer(datatype, [given("a", datatype, a), given("b", datatype, b)])
                for name, expected in ("same", a), ("larger", np.maximum(a, b)):
                    self.assertEqual(result.get_output(name).datatype, datatype)
                    self.assertEqual(result.as_numpy(name).dtype, expected.dtype)
                    np.testing.assert_array_equal(result.as_numpy(name), expected)


class InferTest(TritonCase):
    def test_versions_and_labels(self):
        for asked, version in ("", 1), ("1", 1), ("2", 2), ("stable", 1), ("canary", 2):
            self.expect(self.client.infer("dense", data(), asked), version)
        self.expect_refused("NOT_FOUND", "'3'", self.client.infer, "dense", data(), "3")
        self.expect_refused("NOT_FOUND", "none", self.client.infer, "none", data())

    def test_the_answer_has_the_requests_id(self):
        self.assertEqual(self.client.infer("dense", data(), request_id="my own").get_response().id, "my own")

    def test_outputs_are_those_that_are_wanted(self):
        self.expect(self.client.infer("dense", data(), outputs=[triton.InferRequestedOutput("output")]))
        self.expect_refused(
            "INVALID_ARGUMENT",
            "there is no output 'z'",
            self.client.infer,
            "dense",
            data(),
            outputs=[triton.InferRequestedOutput("z")],
        )

    def test_classes_are_the_places_of_the_largest(self):
        result = self.client.infer("dense", data(), outputs=[triton.InferRequestedOutput("output", class_count=2)])
        weight, bias = self.weights[1]
        scores = DATA @ weight.T + bias
        places = np.argsort(-scores, axis=1)[:, :2]
        told = [[text.decode().split(":") for text in row] for row in result.as_numpy("output")]
        self.assertEqual([[int(place) for _, place in row] for row in told], places.tolist())
        np.testing.assert_allclose(
            [[float(score) for score, _ in row] for row in told], np.take_along_axis(scores, places, axis=1), atol=1e-5
        )

    def test_compressed_requests_are_answered(self):
        for algorithm in "gzip", "deflate":
            for times in 1, 4:
                values = np.tile(DATA, (times, 1))
                self.expect(self.client.infer("dense", data(values), compression_algorithm=algorithm), values=values)

    def test_priorities_headers_and_parameters(self):
        for more in {"priority": 1}, {"priority": 3}, {"headers": {"x-request-id": "9"}}, {"parameters": {"mine": "x"}}:
            self.expect(self.client.infer("dense", data(), **more))

    def test_a_timeout_is_the_longest_wait_in_the_queue(self):
        self.expect(self.client.infer("dense", data(), timeout=60_000_000))
        self.expect_refused("UNAVAILABLE", "", self.client.infer, "patient", patient(), timeout=1000)

    def test_the_clients_deadline(self):
        self.expect_refused("DEADLINE_EXCEEDED", "Deadline", self.client.infer, "patient", patient(), client_timeout=0.05)

    def test_sequences_are_refused(self):
        for sequence in 7, "mine":
            self.expect_refused(
                "INVALID_ARGUMENT",
                "keeps a state between requests",
                self.client.infer,
                "dense",
                data(),
                sequence_id=sequence,
                sequence_start=True,
                sequence_end=True,
            )

    def test_mistakes_are_told(self):
        self.expect_refused("INVALID_ARGUMENT", "expected [?,4]", self.client.infer, "dense", data(np.float32([[1, 2]])))
        self.expect_refused(
            "INVALID_ARGUMENT", "BYTES", self.client.infer, "dense", [given("data", "BYTES", np.array([[b"a"] * 4], np.object_))]
        )
        self.expect_refused("INVALID_ARGUMENT", "9 rows", self.client.infer, "dense", data(np.zeros((9, 4), np.float32)))
        elsewhere = triton.InferInput("data", [2, 4], "FP32")
        elsewhere.set_shared_memory("region", 32)
        self.expect_refused("INVALID_ARGUMENT", "shared memory", self.client.infer, "dense", [elsewhere])


class AsyncInferTest(TritonCase):
    def test_answers_come_to_their_callbacks(self):
        futures = []
        for version in "1", "2", "3":
            future, callback = self.future()
            self.client.async_infer("dense", data(), callback, version)
            futures.append(future)
        for version in 1, 2:
            result, error = futures[version - 1].result(timeout=60)
            self.assertIsNone(error)
            self.expect(result, version)
        result, error = futures[2].result(timeout=60)
        self.assertEqual((result, error.status()), (None, "StatusCode.NOT_FOUND"))

    def test_a_cancelled_request_is_not_answered(self):
        before = self.server.count("patient")
        future, callback = self.future()
        self.client.async_infer("patient", patient(), callback).cancel()
        result, error = future.result(timeout=60)
        self.assertEqual((result, error.status()), (None, "StatusCode.CANCELLED"))
        # The next one, which would be computed together with it, is alone.
        self.client.infer("patient", patient())
        self.assertEqual(self.server.count("patient")["success"], before["success"] + 1)


if __name__ == "__main__":
    case_runner.main()
