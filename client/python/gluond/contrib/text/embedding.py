"""Vectors of tokens, from files that are there: gluond downloads nothing.

    glove = text.embedding.create('glove', pretrained_file_name='glove.6B.50d.txt', vocabulary=vocabulary)
    layer.weight.set_data(glove.idx_to_vec)
"""
from __future__ import annotations

import os
import warnings
import zipfile
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type

import numpy as np

from ... import ndarray
from ..._array.array import NDArray
from ...base import WrongType, WrongValue, data_dir
from ._languages import ALIGNED, LANGUAGES
from .vocab import Vocabulary

__all__ = ["CompositeEmbedding", "CustomEmbedding", "FastText", "GloVe", "create", "get_pretrained_file_names", "register"]

_kinds: Dict[str, Type["_TokenEmbedding"]] = {}


def register(embedding_cls: Type["_TokenEmbedding"]) -> Type["_TokenEmbedding"]:
    """A decorator for a class that `create` then knows by its name in lower case."""
    _kinds[embedding_cls.__name__.lower()] = embedding_cls
    return embedding_cls


def create(embedding_name: str, **kwargs: Any) -> "_TokenEmbedding":
    """The vectors of 'glove' or 'fasttext', or of a registered class. AssertionError: there is no such one."""
    if embedding_name.lower() not in _kinds:
        raise WrongValue(
            f"{embedding_name} is not registered. Please register with token embedding.register first; there are "
            f"{', '.join(_kinds)}."
        )
    return _kinds[embedding_name.lower()](**kwargs)


def get_pretrained_file_names(embedding_name: Optional[str] = None) -> Any:
    """The names of the files of 'glove' or 'fasttext', or a dict of all. KeyError: there is no such one."""
    if embedding_name is None:
        return {name: list(kind.files) for name, kind in _kinds.items()}
    if embedding_name not in _kinds:
        raise KeyError(f"Cannot find `embedding_name` {embedding_name}. There are {', '.join(_kinds)}.")
    return list(_kinds[embedding_name].files)


class _TokenEmbedding(Vocabulary):
    """Tokens with a vector each: `idx_to_vec[i]` is that of token i. The first vector is that of unknown tokens."""

    files: Sequence[str] = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._vec_len = 0
        self._idx_to_vec: Any = None

    def _load_embedding(
        self, pretrained_file_path: str, elem_delim: str, init_unknown_vec: Callable[..., NDArray], encoding: str = "utf8"
    ) -> None:
        """Reads a file with a token and its numbers in each line."""
        path = os.path.expanduser(pretrained_file_path)
        if not os.path.isfile(path):
            raise ValueError(f"`pretrained_file_path` must be a valid path to the pre-trained token embedding file, not {path}.")
        unknown: Optional[List[float]] = None
        vectors: List[List[float]] = []
        with open(path, encoding=encoding) as file:
            for number, (token, vector) in enumerate(_lines(file, path, elem_delim), 1):
                if token == self.unknown_token and unknown is None:
                    unknown = vector
                elif token in self._token_to_idx:
                    warnings.warn(f"At line {number} of {path}: token {token} has a vector already; this one is skipped.")
                elif len(vector) == 1:
                    warnings.warn(f"At line {number} of {path}: token {token} with one number is likely a header; it is skipped.")
                elif vectors and len(vector) != len(vectors[0]):
                    raise WrongValue(
                        f"At line {number} of {path}: the vector of token {token} has {len(vector)} numbers, those "
                        f"before have {len(vectors[0])}."
                    )
                else:
                    vectors.append(vector)
                    self._token_to_idx[token] = len(self._idx_to_token)
                    self._idx_to_token.append(token)
        if not vectors:
            raise WrongValue(f"{path} has no vectors.")
        self._vec_len = len(vectors[0])
        # Reserved tokens have no vectors in MXNet, which gives them the next tokens'; here they have that of unknown ones.
        special = len(self._idx_to_token) - len(vectors)
        self._idx_to_vec = ndarray.array(np.concatenate([np.zeros((special, self._vec_len)), np.array(vectors)]))
        self._idx_to_vec[:special] = init_unknown_vec(shape=self._vec_len) if unknown is None else ndarray.array(unknown)

    def _take_over(self, vocabulary: Vocabulary, embeddings: Sequence["_TokenEmbedding"]) -> None:
        """Becomes the vectors of the vocabulary's tokens, one behind the other of several embeddings."""
        if not isinstance(vocabulary, Vocabulary):
            raise WrongType("The argument `vocabulary` must be an instance of mx.contrib.text.vocab.Vocabulary.")
        tokens = list(vocabulary.idx_to_token)
        parts = [
            ndarray.concat(each.idx_to_vec[0:1], each.get_vecs_by_tokens(tokens[1:]), dim=0)
            if len(tokens) > 1
            else each.idx_to_vec[0:1]
            for each in embeddings
        ]
        self._idx_to_vec = ndarray.concat(*parts, dim=1) if len(parts) > 1 else parts[0]
        self._vec_len = self._idx_to_vec.shape[1]
        self._idx_to_token, self._token_to_idx = tokens, dict(vocabulary.token_to_idx)
        self._unknown_token, self._reserved_tokens = vocabulary.unknown_token, vocabulary.reserved_tokens

    @property
    def vec_len(self) -> int:
        """The length of the vectors."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> NDArray:
        """All vectors, (tokens, vec_len)."""
        return self._idx_to_vec

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> NDArray:
        """The vector of a token, (vec_len,), or those of a list of them. `lower_case_backup`: else of the token in lower case."""

        def index(token: str) -> int:
            backup = self._token_to_idx.get(token.lower(), 0) if lower_case_backup else 0
            return self._token_to_idx.get(token, backup)

        if not isinstance(tokens, list):
            return self._idx_to_vec[index(tokens)]
        return ndarray.take(self._idx_to_vec, ndarray.array([index(token) for token in tokens], dtype="int32"))

    def update_token_vectors(self, tokens: Any, new_vectors: NDArray) -> None:
        """Gives tokens other vectors. ValueError: a token is unknown. AssertionError: the vectors have another shape."""
        tokens = tokens if isinstance(tokens, list) else [tokens]
        if not isinstance(new_vectors, NDArray) or new_vectors.shape not in ((len(tokens), self._vec_len),) + (
            ((self._vec_len,),) if len(tokens) == 1 else ()
        ):
            raise WrongValue(f"`new_vectors` must be an NDArray of the shape ({len(tokens)}, {self._vec_len}).")
        for token in tokens:
            if token not in self._token_to_idx:
                raise ValueError(f"Token {token} is unknown. To update the vector of unknown tokens, name {self.unknown_token}.")
        self._idx_to_vec[ndarray.array([self._token_to_idx[token] for token in tokens], dtype="int32")] = new_vectors


def _lines(file: Any, path: str, elem_delim: str) -> Any:
    """(token, numbers) of each line."""
    for number, line in enumerate(file, 1):
        token, *numbers = line.rstrip().split(elem_delim)
        if not numbers:
            raise WrongValue(f"At line {number} of {path}: there is no vector behind the token.")
        yield token, [float(each) for each in numbers]


class _Published(_TokenEmbedding):
    """Vectors of a published file, in a folder of `embedding_root`. FileNotFoundError: it is not there."""

    suffix = ""  # The end of the names of more files than are in `files`.

    def __init__(
        self,
        pretrained_file_name: str,
        embedding_root: Optional[str],
        init_unknown_vec: Callable[..., NDArray],
        vocabulary: Optional[Vocabulary],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        kind = type(self).__name__.lower()
        if pretrained_file_name not in self.files and not (self.suffix and pretrained_file_name.endswith(self.suffix)):
            raise KeyError(
                f"Cannot find pretrained file {pretrained_file_name} for token embedding {kind}. Valid pretrained "
                f"files: {', '.join(self.files)}"
            )
        root = os.path.join(data_dir(), "embeddings") if embedding_root is None else os.path.expanduser(embedding_root)
        folder = os.path.join(root, kind)
        path = os.path.join(folder, pretrained_file_name)
        archive, url = self._archive(pretrained_file_name)
        packed = os.path.join(folder, archive)
        if not os.path.exists(path) and os.path.exists(packed):
            with zipfile.ZipFile(packed) as files:
                files.extract(pretrained_file_name, folder)
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"{kind}: {path} is not there, and gluond downloads nothing. Fetch {url} by other means and "
                "put it, or what is in it, into that folder, or name another one: embedding_root='...'."
            )
        self._load_embedding(path, " ", init_unknown_vec)
        if vocabulary is not None:
            self._take_over(vocabulary, [self])

    @staticmethod
    def _archive(name: str) -> Tuple[str, str]:
        """The name of the packed file, and where it is published."""
        raise NotImplementedError


@register
class GloVe(_Published):
    """Stanford's vectors; see create."""

    files = tuple(
        f"glove.{name}.txt"
        for name in (
            "42B.300d",
            "6B.50d",
            "6B.100d",
            "6B.200d",
            "6B.300d",
            "840B.300d",
            "twitter.27B.25d",
            "twitter.27B.50d",
            "twitter.27B.100d",
            "twitter.27B.200d",
        )
    )

    def __init__(
        self,
        pretrained_file_name: str = "glove.840B.300d.txt",
        embedding_root: Optional[str] = None,
        init_unknown_vec: Callable[..., NDArray] = ndarray.zeros,
        vocabulary: Optional[Vocabulary] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, **kwargs)

    @staticmethod
    def _archive(name: str) -> Tuple[str, str]:
        parts = name.split(".")[:-1]
        packed = ".".join(parts if parts[1] in ("42B", "840B") else parts[:-1]) + ".zip"
        return packed, "https://nlp.stanford.edu/data/" + packed


@register
class FastText(_Published):
    """Facebook's vectors, `wiki.<language>.vec` among them; see create."""

    files = (
        "crawl-300d-2M.vec",
        "wiki-news-300d-1M.vec",
        "wiki-news-300d-1M-subword.vec",
        *[f"wiki.{language}.vec" for language in LANGUAGES],
        *[f"wiki.multi.{language}.vec" for language in ALIGNED],
    )
    suffix = ".vec"

    def __init__(
        self,
        pretrained_file_name: str = "wiki.simple.vec",
        embedding_root: Optional[str] = None,
        init_unknown_vec: Callable[..., NDArray] = ndarray.zeros,
        vocabulary: Optional[Vocabulary] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, **kwargs)

    @staticmethod
    def _archive(name: str) -> Tuple[str, str]:
        packed = name[: -len("vec")] + "zip"
        english = name.startswith(("crawl", "wiki-news"))
        part = f"vectors-english/{name}.zip" if english else f"vectors-wiki/{packed}"
        return packed, "https://dl.fbaipublicfiles.com/fasttext/" + part


class CustomEmbedding(_TokenEmbedding):
    """Vectors of a file of one's own: a token and its numbers in each line, with `elem_delim` between them."""

    def __init__(
        self,
        pretrained_file_path: str,
        elem_delim: str = " ",
        encoding: str = "utf8",
        init_unknown_vec: Callable[..., NDArray] = ndarray.zeros,
        vocabulary: Optional[Vocabulary] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        if vocabulary is not None:
            self._take_over(vocabulary, [self])


class CompositeEmbedding(_TokenEmbedding):
    """For each token of a vocabulary, its vectors in several embeddings, one behind the other."""

    def __init__(self, vocabulary: Vocabulary, token_embeddings: Any) -> None:
        super().__init__()
        self._take_over(vocabulary, token_embeddings if isinstance(token_embeddings, list) else [token_embeddings])
