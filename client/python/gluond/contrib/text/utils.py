"""Counts of words."""
from __future__ import annotations

import collections
import re
from typing import Counter, Optional

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(
    source_str: str,
    token_delim: str = " ",
    seq_delim: str = "\n",
    to_lower: bool = False,
    counter_to_update: Optional[Counter[str]] = None,
) -> Counter[str]:
    """How often each token is in a text, added to `counter_to_update` if there is one, which is then the result.

    `token_delim` and `seq_delim`: regular expressions of what is between tokens.
    """
    counts = collections.Counter() if counter_to_update is None else counter_to_update
    tokens = (token for token in re.split(f"{token_delim}|{seq_delim}", source_str) if token)
    counts.update(token.lower() if to_lower else token for token in tokens)
    return counts
