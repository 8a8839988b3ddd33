"""tritonclient, unmodified: all that it can ask and tell a server beside inferences."""

from tests.peers import installed  # The first import: it goes on in another Python.
import unittest

from tests import case_runner
from tests.peers.triton_case import TritonCase, data


class ServerTest(TritonCase):
    def test_it_lives_and_is_ready(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())

    def test_metadata(self):
        metadata = self.client.get_server_metadata()
        self.assertEqual(metadata.name, "gluond")
        self.assertIn("statistics", metadata.extensions)
        self.assertEqual(self.client.get_server_metadata(as_json=True)["version"], metadata.version)

    def test_headers_and_deadlines_go_along(self):
        self.assertTrue(self.client.is_server_live(headers={"x-request-id": "7"}, client_timeout=60))

    def test_it_keeps_no_traces(self):
        for model in "", "dense":
            self.assertEqual([*self.client.get_trace_settings(model).settings["trace_level"].value], ["OFF"])
            self.assertEqual([*self.client.update_trace_settings(model, {"trace_level": ["OFF"]}).settings], ["trace_level"])
            self.expect_refused(
                "UNIMPLEMENTED", "keeps no traces", self.client.update_trace_settings, model, {"trace_level": ["TIMESTAMPS"]}
            )
        self.expect_refused("NOT_FOUND", "none", self.client.get_trace_settings, "none")

    def test_it_is_told_what_to_log(self):
        told = lambda answer: {name: answer.settings[name].bool_param for name in ("log_info", "log_warning", "log_error")}
        default = {"log_info": False, "log_warning": True, "log_error": True}
        self.assertEqual(told(self.client.get_log_settings()), default)
        self.assertEqual(told(self.client.update_log_settings({"log_warning": False})), {**default, "log_warning": False})
        verbose = self.client.update_log_settings({"log_warning": True, "log_verbose_level": 1}, as_json=True)["settings"]
        self.assertEqual(verbose["log_verbose_level"], {"uint32_param": 1})
        self.assertEqual(told(self.client.update_log_settings({"log_verbose_level": 0})), default)
        self.expect_refused("PERMISSION_DENIED", "--access_log", self.client.update_log_settings, {"log_file": "/tmp/log"})

    def test_it_maps_no_memory_of_clients(self):
        client = self.client
        self.assertEqual(len(client.get_system_shared_memory_status().regions), 0)
        self.assertEqual(len(client.get_cuda_shared_memory_status().regions), 0)
        self.expect_refused("UNIMPLEMENTED", "maps no memory", client.register_system_shared_memory, "a", "/a", 64)
        self.expect_refused("UNIMPLEMENTED", "maps no memory", client.register_cuda_shared_memory, "a", b"aGFuZGxl", 0, 64)
        client.unregister_system_shared_memory()
        client.unregister_system_shared_memory("a")
        client.unregister_cuda_shared_memory()
        client.unregister_cuda_shared_memory("a")


class ModelTest(TritonCase):
    def test_readiness_of_versions_and_labels(self):
        for version in "", "1", "2", "stable", "canary":
            self.assertTrue(self.client.is_model_ready("dense", version), version)
        for missing in (("dense", "3"), ("dense", "gold"), ("none",)):
            self.assertFalse(self.client.is_model_ready(*missing), missing)

    def test_metadata(self):
        metadata = self.client.get_model_metadata("dense", as_json=True)
        self.assertEqual((metadata["name"], metadata["platform"], metadata["versions"]), ("dense", "gluond", ["1", "2"]))
        self.assertEqual(metadata["inputs"], [{"name": "data", "datatype": "FP32", "shape": ["-1", "4"]}])
        self.assertEqual(metadata["outputs"], [{"name": "output", "datatype": "FP32", "shape": ["-1", "3"]}])
        self.expect_refused("NOT_FOUND", "'3'", self.client.get_model_metadata, "dense", "3")

    def test_configuration(self):
        config = self.client.get_model_config("dense", "canary").config
        self.assertEqual((config.name, config.backend, config.max_batch_size), ("dense", "gluond", 8))
        self.assertEqual(([*config.input[0].dims], [*config.output[0].dims]), ([4], [3]), "the batch's axis is hidden")
        self.assertEqual((config.dynamic_batching.priority_levels, config.dynamic_batching.default_priority_level), (2, 2))
        self.assertTrue(config.dynamic_batching.default_queue_policy.allow_timeout_override)
        self.assertEqual(self.client.get_model_config("dense", as_json=True)["config"]["input"][0]["data_type"], "TYPE_FP32")

    def test_statistics(self):
        count = lambda: [
            (each.version, each.inference_count, each.inference_stats.success.count)
            for each in self.client.get_inference_statistics("dense").model_stats
        ]
        before = count()
        self.client.infer("dense", data(), "2")
        self.assertEqual(count(), [before[0], ("2", before[1][1] + 2, before[1][2] + 1)])
        self.assertEqual([each.version for each in self.client.get_inference_statistics("dense", "stable").model_stats], ["1"])
        self.assertEqual({each.name for each in self.client.get_inference_statistics().model_stats}, {"dense", "patient"})
        self.expect_refused("NOT_FOUND", "none", self.client.get_inference_statistics, "none")


class RepositoryTest(TritonCase):
    def states(self):
        return {(each.name, each.version): each.state for each in self.client.get_model_repository_index().models}

    def test_index(self):
        self.assertEqual(self.states(), {("dense", "1"): "READY", ("dense", "2"): "READY", ("patient", "1"): "READY"})

    def test_a_model_is_unloaded_and_loaded_again(self):
        for unload_dependents in False, True:
            self.client.unload_model("dense", unload_dependents=unload_dependents)
            self.assertEqual(self.states()["dense", "1"], "UNAVAILABLE")
            self.expect_refused("UNAVAILABLE", "dense", self.client.infer, "dense", data())
            self.client.load_model("dense")
            self.assertTrue(self.client.is_model_ready("dense", "canary"))
            self.expect(self.client.infer("dense", data()))

    def test_what_cannot_be_loaded_is_told(self):
        self.expect_refused("NOT_FOUND", "none", self.client.load_model, "none")
        self.expect_refused("NOT_FOUND", "none", self.client.unload_model, "none")
        self.expect_refused("INVALID_ARGUMENT", "'config'", self.client.load_model, "dense", config="{}")
        self.expect_refused(
            "INVALID_ARGUMENT",
            "as it was published",
            self.client.load_model,
            "dense",
            config="{}",
            files={"file:1/model.onnx": b"x"},
        )


if __name__ == "__main__":
    case_runner.main()
