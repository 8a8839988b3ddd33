"""tritonclient, unmodified: inferences on a stream."""

from tests.peers import installed  # The first import: it goes on in another Python.
import queue
import unittest

import numpy as np

from tests import case_runner
from tests.peers.triton_case import DATA, TritonCase, data, patient


class StreamTest(TritonCase):
    def setUp(self):
        super().setUp()
        self.answers = queue.Queue()
        self.client.start_stream(lambda result, error: self.answers.put((result, error)))
        self.addCleanup(self.client.stop_stream)

    def answer(self):
        return self.answers.get(timeout=60)

    def test_answers_come_in_the_order_of_their_requests(self):
        for i in range(100):
            self.client.async_stream_infer("dense", data(DATA + i), request_id=str(i), model_version=str(1 + i % 2))
        for i in range(100):
            result, error = self.answer()
            self.assertIsNone(error)
            self.assertEqual(result.get_response().id, str(i))
            self.expect(result, 1 + i % 2, DATA + np.float32(i))

    def test_an_error_in_the_middle_is_one_answer(self):
        for version in "1", "3", "2":
            self.client.async_stream_infer("dense", data(), version)
        self.expect(self.answer()[0], 1)
        result, error = self.answer()
        self.assertIsNone(result)
        self.assertIn("'3'", error.message())
        self.expect(self.answer()[0], 2)

    def test_sequences_are_refused_and_the_stream_goes_on(self):
        self.client.async_stream_infer("dense", data(), sequence_id=7, sequence_start=True)
        self.client.async_stream_infer("dense", data())
        self.assertIn("keeps a state between requests", self.answer()[1].message())
        self.expect(self.answer()[0])

    def test_each_answer_is_the_final_one(self):
        self.client.async_stream_infer("dense", data(), enable_empty_final_response=True, priority=1, timeout=60_000_000)
        result, error = self.answer()
        self.assertIsNone(error)
        self.expect(result)
        self.assertTrue(result.get_response().parameters["triton_final_response"].bool_param)

    def test_its_stop_waits_for_all_answers(self):
        for _ in range(10):
            self.client.async_stream_infer("dense", data())
        self.client.stop_stream()
        self.assertEqual(self.answers.qsize(), 10)

    def test_a_cancelled_stream_ends_at_once(self):
        before = self.server.count("patient")
        self.client.async_stream_infer("patient", patient())
        self.client.stop_stream(cancel_requests=True)
        self.assertEqual(self.answer()[1].status(), "StatusCode.CANCELLED")
        # The next one, which would be computed together with it, is alone.
        self.client.infer("patient", patient())
        self.assertEqual(self.server.count("patient")["success"], before["success"] + 1)

    def test_an_error_ends_a_stream_that_wants_it(self):
        self.client.stop_stream()
        self.client.start_stream(lambda result, error: self.answers.put((result, error)), headers={"triton_grpc_error": "true"})
        for version in "1", "3":
            self.client.async_stream_infer("dense", data(), version)
        self.expect(self.answer()[0], 1)
        error = self.answer()[1]
        self.assertEqual(error.status(), "StatusCode.NOT_FOUND")
        self.assertIn("'3'", error.message())


if __name__ == "__main__":
    case_runner.main()
