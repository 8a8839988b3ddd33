"""Vocabulary: the numbers of tokens."""
from __future__ import annotations

import collections
from typing import Any, Counter, Dict, List, Optional

from ...base import WrongType, WrongValue

__all__ = ["Vocabulary"]


class Vocabulary:
    """Numbers tokens: first `unknown_token`, then `reserved_tokens`, then those of `counter`, the most frequent first.

    It has the counter's tokens that occur `min_freq` times or more, and at most `most_freq_count`; of equal frequency in the order of
    the alphabet. AssertionError: wrong or contradictory arguments.
    """

    def __init__(
        self,
        counter: Optional[Counter[str]] = None,
        most_freq_count: Optional[int] = None,
        min_freq: int = 1,
        unknown_token: str = "<unk>",
        reserved_tokens: Optional[List[str]] = None,
    ) -> None:
        if min_freq <= 0:
            raise WrongValue("`min_freq` must be set to a positive value.")
        reserved = list(reserved_tokens or ())
        if unknown_token in reserved:
            raise WrongValue("`reserved_token` cannot contain `unknown_token`.")
        if len(set(reserved)) != len(reserved):
            raise WrongValue("`reserved_tokens` cannot contain duplicate reserved tokens.")
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else reserved
        self._idx_to_token = [unknown_token, *reserved]
        if counter is not None:
            if not isinstance(counter, collections.Counter):
                raise WrongType("`counter` must be an instance of collections.Counter.")
            most = len(counter) if most_freq_count is None else most_freq_count
            special = set(self._idx_to_token)
            frequent = [
                token
                for token, count in sorted(counter.items(), key=lambda item: (-item[1], item[0]))
                if count >= min_freq and token not in special
            ]
            self._idx_to_token += frequent[:most]
        self._token_to_idx = {token: i for i, token in enumerate(self._idx_to_token)}

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> Dict[str, int]:
        """The numbers by token."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> List[str]:
        """The tokens in the order of their numbers."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> str:
        """The token of number 0, which stands for all others."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> Optional[List[str]]:
        """The tokens after it, or None."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """The number of a token, or a list of those of a list; 0 for unknown ones."""
        if not isinstance(tokens, list):
            return self._token_to_idx.get(tokens, 0)
        return [self._token_to_idx.get(token, 0) for token in tokens]

    def to_tokens(self, indices: Any) -> Any:
        """The token of a number, or a list of those of a list. ValueError: there is no such number."""
        if isinstance(indices, list):
            return [self.to_tokens(index) for index in indices]
        if not isinstance(indices, int) or indices >= len(self):
            raise ValueError(f"Token index {indices} in the provided `indices` is invalid.")
        return self._idx_to_token[indices]
