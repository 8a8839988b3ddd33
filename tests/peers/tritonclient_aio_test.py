"""tritonclient.grpc.aio, unmodified: the same for programs of asyncio."""

from tests.peers import installed  # The first import: it goes on in another Python.
import asyncio
import unittest

import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

from tests import case_runner
from tests.peers.triton_case import DATA, TritonCase, data, patient


class AioTest(TritonCase):
    def run_with_client(self, steps):
        async def run():
            async with triton_aio.InferenceServerClient(self.server.address) as client:
                await steps(client)

        asyncio.run(run())

    def test_questions(self):
        async def steps(client):
            self.assertTrue(await client.is_server_live() and await client.is_server_ready())
            self.assertTrue(await client.is_model_ready("dense", "canary"))
            self.assertEqual((await client.get_model_metadata("dense")).versions, ["1", "2"])
            with self.assertRaisesRegex(InferenceServerException, "keeps no traces"):
                await client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]})

        self.run_with_client(steps)

    def test_inferences_at_once(self):
        async def steps(client):
            results = await asyncio.gather(
                *(client.infer("dense", data(DATA + i), str(1 + i % 2), request_id=str(i)) for i in range(20))
            )
            for i, result in enumerate(results):
                self.assertEqual(result.get_response().id, str(i))
                self.expect(result, 1 + i % 2, DATA + i)
            with self.assertRaises(InferenceServerException) as caught:
                await client.infer("dense", data(), "3")
            self.assertEqual(caught.exception.status(), "StatusCode.NOT_FOUND")

        self.run_with_client(steps)

    def test_a_stream_keeps_the_order_and_goes_on_after_an_error(self):
        async def requests():
            for i in range(20):
                yield {
                    "model_name": "dense",
                    "inputs": data(DATA + i),
                    "model_version": "3" if i == 10 else "2",
                    "request_id": str(i),
                }

        async def steps(client):
            answers = [answer async for answer in client.stream_infer(requests())]
            self.assertEqual(len(answers), 20)
            for i, (result, error) in enumerate(answers):
                if i == 10:
                    self.assertIn("'3'", error.message())
                else:
                    self.assertEqual(result.get_response().id, str(i))
                    self.expect(result, 2, DATA + i)

        self.run_with_client(steps)

    def test_a_cancelled_stream(self):
        async def requests():
            yield {"model_name": "patient", "inputs": patient()}

        async def steps(client):
            stream = client.stream_infer(requests())
            self.assertTrue(stream.cancel())
            with self.assertRaises(asyncio.CancelledError):
                await stream.__anext__()

        self.run_with_client(steps)


if __name__ == "__main__":
    case_runner.main()
