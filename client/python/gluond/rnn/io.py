"""Another name: MXNet keeps the batches of sentences here."""
from ._sentences import BucketSentenceIter, encode_sentences

__all__ = ["BucketSentenceIter", "encode_sentences"]
