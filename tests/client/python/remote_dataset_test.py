"""Datasets of the server from Python: sent once, resumed, listed and deleted."""

import unittest
from unittest import mock

import gluond as mx
import numpy as np
from gluond import nd
from gluond._proto import dataset_pb2
from gluond._remote import calls, datasets, methods
from tests import case_runner
from tests.client.python.array_case import ArrayCase


class DatasetTest(ArrayCase):
    def setUp(self):
        self.data = np.arange(40, dtype="uint8").reshape(10, 4)
        self.addCleanup(lambda: [dataset.delete() for dataset in mx.remote.datasets()])

    def upload(self, name="d", **options):
        return mx.remote.Dataset(name, data=self.data, label=np.arange(10), progress=False, **options)

    def sent(self):
        """Patches the calls so that they are kept."""
        real = calls.Client.call
        return mock.patch.object(calls.Client, "call", autospec=True, side_effect=real)

    def test_it_describes_itself(self):
        about = self.upload(scale=0.5, shift={"label": 1.0}).describe()
        self.assertEqual((about.name, about.rows, about.bytes, about.committed), ("d", 10, 120, True))
        self.assertEqual(about.columns["data"], ((10, 4), np.dtype("uint8"), 0.5, 0.0))
        self.assertEqual(about.columns["label"], ((10,), np.dtype("int64"), 1.0, 1.0))

    def test_arrays_of_any_kind_are_columns(self):
        mx.remote.Dataset("d", nd.array(self.data), list(range(10)), weight=np.ones(10), progress=False)
        columns = mx.remote.Dataset("d").describe().columns
        self.assertEqual(
            [(name, column.dtype.name) for name, column in columns.items()],
            [("data", "float32"), ("label", "float32"), ("weight", "float64")],
        )

    def test_the_same_values_are_not_sent_again(self):
        self.upload()
        with self.sent() as call:
            self.upload()
        self.assertEqual([each.args[1].name for each in call.call_args_list], ["ListDatasets"])

    def test_other_values_need_replace(self):
        self.upload()
        self.data[0, 0] = 77
        with self.assertRaisesRegex(mx.MXNetError, "dataset 'd' already"):
            self.upload()
        self.upload(replace=True)
        self.upload()

    def test_an_upload_goes_on_where_it_was(self):
        """In any process: the other's Client has another name."""
        caller = calls.current()
        limits = mock.Mock(max_chunk_bytes=16)
        real, chunks = calls.Client.call, []

        def interrupted(self, method, request, **options):
            if method.name == "UploadDataset" and request.HasField("chunk"):
                if len(chunks) == 2:
                    raise KeyboardInterrupt
                chunks.append(request.chunk.offset)
            return real(self, method, request, **options)

        with mock.patch.object(caller, "_limits", limits):
            with mock.patch.object(calls.Client, "call", interrupted), self.assertRaises(KeyboardInterrupt):
                self.upload()
        self.assertFalse(mx.remote.Dataset("d").describe().committed)
        other = calls.Client(calls.connect.current())
        with mock.patch.object(calls, "of", lambda session: other), self.sent() as call:
            self.upload()
        offsets = [
            each.args[2].chunk.offset
            for each in call.call_args_list
            if each.args[1].name == "UploadDataset" and each.args[2].HasField("chunk")
        ]
        self.assertEqual((chunks, offsets), ([0, 16], [32, 0]))
        self.assertTrue(mx.remote.Dataset("d").describe().committed)

    def test_an_upload_that_the_server_has_lost_begins_anew(self):
        real, offsets = calls.Client.call, []

        def losing(self, method, request, **options):
            if method.name == "UploadDataset" and request.HasField("chunk"):
                offsets.append(request.chunk.offset)
                if len(offsets) == 2:
                    real(self, methods.DELETE_DATASET, dataset_pb2.DeleteDatasetRequest(dataset="d"))
            return real(self, method, request, **options)

        with mock.patch.object(calls.current(), "_limits", mock.Mock(max_chunk_bytes=32)):
            with mock.patch.object(calls.Client, "call", losing):
                self.upload()
        self.assertEqual(offsets, [0, 32, 0, 32, 0, 32, 64])
        self.assertTrue(mx.remote.Dataset("d").describe().committed)

    def test_a_temporary_one_is_not_stored(self):
        dataset = datasets.Temporary({"data": self.data})
        dataset.send()
        self.assertEqual((dataset.describe().committed, dataset.describe().stored), (True, False))

    def test_mistakes_are_told(self):
        with self.assertRaisesRegex(ValueError, r"as many rows each; got 'data' \(10, 4\), 'label' \(3,\)"):
            mx.remote.Dataset("d", data=self.data, label=np.arange(3))
        with self.assertRaisesRegex(ValueError, "a scale or shift for 'date', which is no column; columns are data, label"):
            self.upload(scale={"date": 2.0})
        with self.assertRaisesRegex(mx.MXNetError, "there is no dataset 'e'; there are: none"):
            mx.remote.Dataset("e").describe()
        with self.assertRaisesRegex(mx.MXNetError, "DeleteDataset: there is no dataset 'e'"):
            mx.remote.Dataset("e").delete()
        with self.assertRaisesRegex(mx.MXNetError, "dtype uint16 is none of the server's"):
            mx.remote.Dataset("d", data=np.zeros(3, "uint16"))
        with self.assertRaisesRegex(TypeError, "want an NDArray, a numpy array or a list of numbers"):
            mx.remote.Dataset("d", data="text")


if __name__ == "__main__":
    case_runner.main()
