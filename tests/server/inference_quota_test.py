"""A tenant's requests_per_second bounds inference, whichever way its requests come."""

import grpc

from tests import case_runner
from tests.server.tenants_fixture import INFERENCE, STATUS, TenantsCase


class InferenceQuotaTest(TenantsCase):
    def test_each_request_on_a_stream_counts(self):
        self.serve("acme requests_per_second=0.01", "globex")
        self.gil.find(INFERENCE)
        request = self.gil.prototype("inference.ModelInferRequest")
        answer = self.gil.prototype("inference.ModelStreamInferResponse")

        def errors(name):
            stream = self.channel(name).stream_stream(
                f"/{INFERENCE}/ModelStreamInfer", request.SerializeToString, answer.FromString
            )
            return [each.error_message for each in stream((request(model_name="m") for _ in range(5)), timeout=60)]

        self.assertEqual([message[:18] for message in errors("globex/gil")], ["no model is served"] * 5)
        refused = errors("acme/ann")  # The stream itself is the one call that may come at once.
        self.assertEqual(len(refused), 5)
        for message in refused:
            self.assertRegex(message, r"requests_per_second.* ask again in \d+\.\d+ s")
        with self.assertRaises(grpc.RpcError) as caught:
            errors("acme/art")
        self.assertEqual(caught.exception.code(), STATUS.RESOURCE_EXHAUSTED)


if __name__ == "__main__":
    case_runner.main()
