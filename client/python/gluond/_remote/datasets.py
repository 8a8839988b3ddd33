"""Datasets on the server: rows that many clients and models use, sent once."""

from __future__ import annotations

import datetime
import secrets
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

import grpc
import numpy as np
from crc32c import crc32c

from .._proto import dataset_pb2, tensor_pb2
from .._wire.tensors import DTYPE_OF, flag_of
from ..base import MXNetError
from ..progress import Progress
from . import calls, methods, values
from .calls import CallError, Client

__all__ = ["Column", "Dataset", "DatasetDescription", "datasets"]


class Column(NamedTuple):
    """A column: its shape, rows first, its dtype, and the scale and shift with which its rows leave the dataset."""

    shape: Tuple[int, ...]
    dtype: np.dtype
    scale: float
    shift: float


class DatasetDescription(NamedTuple):
    """The server's knowledge of a dataset. committed: whether its upload is complete; stored: whether it outlives the
    server, which a server without a store and the temporary datasets of `fit` do not give."""

    name: str
    rows: int
    columns: Dict[str, Column]
    bytes: int
    committed: bool
    created: datetime.datetime
    stored: bool


class Dataset:
    """A dataset on the server, by its name. With columns, it is uploaded first:

        fashion = mx.remote.Dataset("fashion", data=images, label=labels, scale={"data": 1 / 255})
        model.fit(fashion, epochs=3)
        mx.remote.Dataset("fashion").describe()

    Columns are NDArrays or numpy arrays with as many rows each, kept in their own dtype; those of bytes take a quarter of
    the room of float32. A column feeds the model's input of its name, `label` the loss; its rows leave the dataset as
    x scale + shift, in the dtype of what they feed. An upload that was interrupted goes on where it was, in whichever
    process it is begun again with the same values; one that is complete with the same values is not sent again. A server
    with a store has it on the disk then, so that it outlives the server.
    replace: deletes another dataset of that name first.
    """

    def __init__(
        self,
        name: str,
        data: Any = None,
        label: Any = None,
        scale: Union[float, Mapping[str, float], None] = None,
        shift: Union[float, Mapping[str, float], None] = None,
        replace: bool = False,
        progress: bool = True,
        **columns: Any,
    ) -> None:
        self.name = name
        given = {key: value for key, value in (("data", data), ("label", label), *columns.items()) if value is not None}
        if given:
            _Upload(calls.current(), name, given, _by_column(scale, "scale"), _by_column(shift, "shift")).run(
                replace, f"upload {name}" if progress else ""
            )

    def __repr__(self) -> str:
        return f"<Dataset '{self.name}'>"

    def describe(self) -> DatasetDescription:
        """Its rows, columns and size. MXNetError: there is none of this name."""
        listed = _listed(calls.current())
        for dataset in listed:
            if dataset.name == self.name:
                return _description(dataset)
        names = ", ".join(f"'{dataset.name}'" for dataset in listed) or "none"
        raise CallError(
            f"there is no dataset '{self.name}'; there are: {names}. mx.remote.Dataset('{self.name}', data=..., "
            "label=...) makes it",
            grpc.StatusCode.NOT_FOUND,
        )

    def delete(self) -> None:
        """Deletes it, or what was uploaded of it. Steps that use it end first."""
        calls.current().delete(methods.DELETE_DATASET, dataset_pb2.DeleteDatasetRequest(dataset=self.name))


def datasets() -> List[Dataset]:
    """All datasets of the server, by name; those whose upload is not complete among them."""
    return [Dataset(dataset.name) for dataset in _listed(calls.current())]


class Temporary(Dataset):
    """A dataset for one use, in memory only, under a name of its own. Its maker deletes it. It keeps the columns: a restart
    of the server takes the dataset, and another upload brings it back."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__(f"fit-{secrets.token_hex(8)}")
        self._upload = _Upload(calls.current(), self.name, columns, {}, {}, temporary=True)
        self._title = ""

    def send(self, progress: Optional[bool] = None) -> None:
        """Uploads it, or what the server lacks of it. progress: whether to show a line. Default: as the last time."""
        if progress is not None:
            self._title = "upload" if progress else ""
        self._upload.run(False, self._title)

    def end(self, kind: Any, error: Any, trace: Any) -> None:
        """Deletes it, unless a restart of the server has. After an error, which is what the user is to see, nothing is
        raised, and a server that is gone is not waited for."""
        patience = None if kind is None else 0.0
        try:
            calls.current().delete(methods.DELETE_DATASET, dataset_pb2.DeleteDatasetRequest(dataset=self.name), patience)
        except CallError as refused:
            if kind is None and refused.code is not grpc.StatusCode.NOT_FOUND:
                raise


def _listed(client: Client) -> Any:
    pages = client.pages(methods.LIST_DATASETS, dataset_pb2.ListDatasetsRequest())
    return [dataset for page in pages for dataset in page.datasets]


def _description(dataset: Any) -> DatasetDescription:
    columns = {
        column.name: Column(tuple(column.shape), DTYPE_OF[column.dtype], _scale(column), column.shift) for column in dataset.columns
    }
    created = datetime.datetime.fromtimestamp(dataset.created.seconds, datetime.timezone.utc)
    return DatasetDescription(dataset.name, dataset.rows, columns, dataset.bytes, dataset.committed, created, dataset.stored)


def _by_column(given: Union[float, Mapping[str, float], None], what: str) -> Mapping[str, float]:
    """`scale=1 / 255` is of the column `data`."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return given
    if isinstance(given, (int, float, np.number)):
        return {"data": float(given)}
    raise TypeError(f"{what} is a number, for the column 'data', or numbers by column, not a {type(given).__name__}")


class _Upload:
    """One dataset on its way. Its client's name follows from its contents, so that any process goes on with it."""

    def __init__(
        self,
        client: Client,
        name: str,
        columns: Mapping[str, Any],
        scale: Mapping[str, float],
        shift: Mapping[str, float],
        temporary: bool = False,
    ) -> None:
        self._client = client
        self._name = name
        self._temporary = temporary
        self._values = {key: np.ascontiguousarray(values.as_numpy(value)) for key, value in columns.items()}
        values.rows(self._values)
        for key in (*scale, *shift):
            if key not in self._values:
                raise ValueError(
                    f"dataset '{name}': there is a scale or shift for '{key}', which is no column; columns are "
                    f"{', '.join(self._values)}"
                )
        self._columns = []
        for key, value in self._values.items():
            column = dataset_pb2.Column(name=key, shape=value.shape, dtype=flag_of(value.dtype), crc32c=crc32c(_bytes(value)))
            if key in scale:
                column.scale = scale[key]
            if key in shift:
                column.shift = shift[key]
            self._columns.append(column)
        declared = dataset_pb2.UploadDatasetRequest(dataset=name, columns=self._columns)
        self._client_id = f"python-upload-{crc32c(declared.SerializeToString()):08x}"

    def _send(self, **fields: Any) -> Any:
        return self._client.call(
            methods.UPLOAD_DATASET,
            dataset_pb2.UploadDatasetRequest(dataset=self._name, call={"client_id": self._client_id}, **fields),
        )

    def run(self, replace: bool, title: str) -> None:
        """Sends what the server lacks. title: of the line that shows how far it is; empty: there is none."""
        if self._is_there():
            return
        try:
            received = self._declare()
        except CallError as error:
            if not replace or error.code is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            Dataset(self._name).delete()
            received = self._declare()
        try:
            self._send_rest(received, title)
        except CallError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise
            # The server was started anew, or has forgotten the upload: this begins with what it has now.
            self._send_rest(self._declare(), title)

    def _declare(self) -> Mapping[str, int]:
        """Bytes that the server has, by column."""
        return self._send(columns=self._columns, temporary=self._temporary).received

    def _send_rest(self, received: Mapping[str, int], title: str) -> None:
        chunk = self._client.limits.max_chunk_bytes
        chunks = [(key, begin) for key, value in self._values.items() for begin in range(received.get(key, 0), value.nbytes, chunk)]
        shown: Iterable[Tuple[str, int]] = chunks
        if title and len(chunks) > 2:
            shown = Progress(chunks, title)
        for key, begin in shown:
            piece = _bytes(self._values[key])[begin : begin + chunk]
            answer = self._send(column=key, chunk=tensor_pb2.Chunk(offset=begin, data=piece.tobytes()))
            if answer.received.get(key, 0) < begin + len(piece):
                raise MXNetError(
                    f"dataset '{self._name}', column '{key}': {begin + len(piece)} bytes were sent, and the "
                    f"server has {answer.received.get(key, 0)}; is another process uploading it, too?"
                )
        self._send(commit=True)

    def _is_there(self) -> bool:
        """Whether the server has the dataset, complete and with these values."""
        for dataset in _listed(self._client):
            if dataset.name == self._name and dataset.committed:
                return len(dataset.columns) == len(self._columns) and all(map(_same, dataset.columns, self._columns))
        return False


def _bytes(value: np.ndarray) -> Any:
    return memoryview(value.reshape(-1).view(np.uint8)) if value.nbytes else memoryview(b"")


def _same(there: Any, declared: Any) -> bool:
    """Whether a column is as declared; the fields that a declaration leaves out do not count."""
    return (
        there.name == declared.name
        and there.dtype == declared.dtype
        and there.shape == declared.shape
        and _scale(there) == _scale(declared)
        and there.shift == declared.shift
        and there.crc32c == declared.crc32c
    )


def _scale(column: Any) -> float:
    return column.scale if column.HasField("scale") else 1.0


def as_dataset(given: Any) -> Optional[Dataset]:
    """The dataset that is meant: one, or its name. None: arrays."""
    if isinstance(given, Dataset):
        return given
    return Dataset(given) if isinstance(given, str) else None
