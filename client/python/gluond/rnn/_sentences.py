"""Sentences as numbers, in batches of sentences of about one length."""
from __future__ import annotations

import bisect
import random
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .. import ndarray
from ..io._batches import DataBatch, DataDesc, DataIter


def encode_sentences(
    sentences: Sequence[Sequence[str]],
    vocab: Optional[Dict[str, int]] = None,
    invalid_label: int = -1,
    invalid_key: str = "\n",
    start_label: int = 0,
    unknown_token: Optional[str] = None,
) -> Tuple[List[List[int]], Dict[str, int]]:
    """(sentences of numbers, vocabulary). Without a `vocab` it is made, and words get numbers from `start_label` on.

    An unknown word of a given `vocab` counts as `unknown_token`. AssertionError: there is none.
    """
    is_new = vocab is None
    known: Dict[str, int] = {invalid_key: invalid_label} if vocab is None else vocab
    number = start_label

    def encoded(word: str) -> int:
        nonlocal number
        if word not in known:
            if not (is_new or unknown_token):
                raise AssertionError(f"Unknown token {word}")
            number += number == invalid_label
            word = unknown_token or word
            known[word] = number
            number += 1
        return known[word]

    return [[encoded(word) for word in sentence] for sentence in sentences], known


class BucketSentenceIter(DataIter):
    """Batches of encoded sentences, for language models: the label of a word is the word that follows.

    A sentence is filled up with `invalid_label` to the length of the smallest of the `buckets` that it fits; longer
    ones are discarded. Without `buckets` these are the lengths of which there is a batch. A batch's `bucket_key` is its
    length; its arrays are (batch_size, length), or with layout 'TN' (length, batch_size).
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[int]],
        batch_size: int,
        buckets: Optional[List[int]] = None,
        invalid_label: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
        layout: str = "NT",
    ) -> None:
        super().__init__()
        if not buckets:
            counts = np.bincount([len(sentence) for sentence in sentences])
            buckets = [length for length, count in enumerate(counts) if count >= batch_size]
        buckets.sort()
        self.batch_size, self.invalid_label, self.dtype = batch_size, invalid_label, dtype
        self.data_name, self.label_name = data_name, label_name
        self.layout, self.major_axis = layout, layout.find("N")
        self._fill(sentences, buckets)
        self.default_bucket_key = max(self.buckets)
        if self.major_axis not in (0, 1):
            raise ValueError(f"Invalid layout {layout}: Must by NT (batch major) or TN (time major)")
        shape = (batch_size, self.default_bucket_key)
        self.provide_data = self._described(data_name, shape if self.major_axis == 0 else shape[::-1])
        self.provide_label = self._described(label_name, shape if self.major_axis == 0 else shape[::-1])
        self.idx = [
            (place, begin) for place, rows in enumerate(self.data) for begin in range(0, len(rows) - batch_size + 1, batch_size)
        ]
        self.curr_idx = 0
        self.reset()

    def _fill(self, sentences: Sequence[Sequence[int]], buckets: List[int]) -> None:
        """Sorts the sentences into `data`, an array (sentences, length) for each bucket that has some."""
        rows: List[List[np.ndarray]] = [[] for _ in buckets]
        discarded = 0
        for sentence in sentences:
            place = bisect.bisect_left(buckets, len(sentence))
            if place == len(buckets):
                discarded += 1
                continue
            row = np.full((buckets[place],), self.invalid_label, dtype=self.dtype)
            row[: len(sentence)] = sentence
            rows[place].append(row)
        self.buckets = [length for length, found in zip(buckets, rows) if found]
        self.data = [np.asarray(found, dtype=self.dtype) for found in rows if found]
        print(f"WARNING: discarded {discarded} sentences longer than the largest bucket.")

    def _described(self, name: str, shape: Tuple[int, ...]) -> List[DataDesc]:
        return [DataDesc(name=name, shape=shape, layout=self.layout)]

    def reset(self) -> None:
        """Begins anew, in another order: batches are shuffled, and sentences within their bucket."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        for rows in self.data:
            np.random.shuffle(rows)
        self.nddata = [ndarray.array(rows, dtype=self.dtype) for rows in self.data]
        self.ndlabel = [ndarray.array(self._following(rows), dtype=self.dtype) for rows in self.data]

    def _following(self, rows: np.ndarray) -> np.ndarray:
        last = np.full((len(rows), 1), self.invalid_label, dtype=rows.dtype)
        return np.concatenate([rows[:, 1:], last], axis=1)

    def next(self) -> DataBatch:
        """The next batch. StopIteration: there is none."""
        if self.curr_idx == len(self.idx):
            raise StopIteration
        place, begin = self.idx[self.curr_idx]
        self.curr_idx += 1
        data, label = (arrays[place][begin : begin + self.batch_size] for arrays in (self.nddata, self.ndlabel))
        if self.major_axis == 1:
            data, label = data.T, label.T
        return DataBatch(
            [data],
            [label],
            pad=0,
            bucket_key=self.buckets[place],
            provide_data=self._described(self.data_name, data.shape),
            provide_label=self._described(self.label_name, label.shape),
        )
