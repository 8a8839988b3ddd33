"""Numbers and vectors of words: `vocab.Vocabulary(utils.count_tokens_from_str(text))`, `embedding.create('glove', ...)`."""
from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
