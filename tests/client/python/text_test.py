"""mx.contrib.text: numbers and vectors of words, as MXNet 1.9.1 has them."""

import collections
import os
import tempfile
import unittest
import zipfile

import gluond as mx
import numpy as np
from gluond import nd
from gluond.contrib import text
from tests import case_runner
from tests.client.python.array_case import ArrayCase

WORDS = " Life is great ! \n life is good . \n"


class VocabularyTest(unittest.TestCase):
    def setUp(self):
        self.counts = text.utils.count_tokens_from_str(WORDS, to_lower=True)

    def test_words_are_counted(self):
        self.assertEqual(self.counts, {"life": 2, "is": 2, "great": 1, "good": 1, "!": 1, ".": 1})
        counts = collections.Counter(a=1)
        self.assertIs(text.utils.count_tokens_from_str("a*b*c", r"\*", counter_to_update=counts), counts)
        self.assertEqual(counts, {"a": 2, "b": 1, "c": 1})

    def test_words_are_numbered(self):
        for arguments, expected in (
            ({}, ["<unk>", "is", "life", "!", ".", "good", "great"]),
            ({"most_freq_count": 1}, ["<unk>", "is"]),
            ({"min_freq": 2}, ["<unk>", "is", "life"]),
            ({"most_freq_count": 0}, ["<unk>"]),
            ({"reserved_tokens": ["<pad>", "is"], "most_freq_count": 2}, ["<unk>", "<pad>", "is", "life", "!"]),
            ({"unknown_token": "life", "min_freq": 2}, ["life", "is"]),
        ):
            with self.subTest(**arguments):
                self.assertEqual(text.vocab.Vocabulary(self.counts, **arguments).idx_to_token, expected)
        vocabulary = text.vocab.Vocabulary(self.counts, reserved_tokens=["<pad>"])
        self.assertEqual((len(vocabulary), vocabulary.unknown_token, vocabulary.reserved_tokens), (8, "<unk>", ["<pad>"]))
        self.assertEqual((vocabulary.to_indices("is"), vocabulary.to_indices(["x", "life"])), (2, [0, 3]))
        self.assertEqual((vocabulary.to_tokens(2), vocabulary.to_tokens([0, 1])), ("is", ["<unk>", "<pad>"]))
        self.assertEqual(vocabulary.token_to_idx["life"], 3)

    def test_wrong_arguments(self):
        for arguments, what in (
            ({"min_freq": 0}, "positive"),
            ({"counter": {"a": 1}}, "Counter"),
            ({"reserved_tokens": ["<unk>"]}, "unknown_token"),
            ({"reserved_tokens": ["a", "a"]}, "duplicate"),
        ):
            with self.assertRaisesRegex(AssertionError, what):
                text.vocab.Vocabulary(**arguments)
        with self.assertRaisesRegex(ValueError, "Token index 1 .* is invalid"):
            text.vocab.Vocabulary().to_tokens(1)


class EmbeddingTest(ArrayCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, content, name="vectors"):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(content)
        return path

    def read(self, content="5 2\nis 1 2\nlife 3 4\nis 5 6\nx 7 8\n", **arguments):
        with self.assertWarnsRegex(UserWarning, "line 4 .* is has a vector already"):
            return text.embedding.CustomEmbedding(self.write(content), **arguments)

    def test_vectors_of_a_file(self):
        vectors = self.read()
        self.assertEqual((vectors.vec_len, vectors.idx_to_token), (2, ["<unk>", "is", "life", "x"]))
        self.assert_equal(vectors.idx_to_vec, [[0, 0], [1, 2], [3, 4], [7, 8]], np.float32)
        self.assert_equal(vectors.get_vecs_by_tokens("is"), [1, 2])
        self.assert_equal(vectors.get_vecs_by_tokens(["LIFE", "x"]), [[0, 0], [7, 8]])
        self.assert_equal(vectors.get_vecs_by_tokens(["LIFE", "q"], lower_case_backup=True), [[3, 4], [0, 0]])
        self.assert_equal(self.read(init_unknown_vec=nd.ones).idx_to_vec[0], [1, 1])
        unknown = text.embedding.CustomEmbedding(self.write("<unk>,9,9\nlife,1,2\n"), elem_delim=",")
        self.assert_equal(unknown.idx_to_vec, [[9, 9], [1, 2]])

    def test_vectors_of_a_vocabulary(self):
        vocabulary = text.vocab.Vocabulary(collections.Counter(["life", "good"]), reserved_tokens=["<pad>"])
        expected = [[0, 0], [0, 0], [0, 0], [3, 4]]  # Unknown, padding, good, life.
        vectors = self.read(vocabulary=vocabulary)
        self.assert_equal(vectors.idx_to_vec, expected)
        self.assertEqual(vectors.to_indices(["life", "is"]), [3, 0])
        both = text.embedding.CompositeEmbedding(vocabulary, [self.read(), vectors])
        self.assertEqual(both.vec_len, 4)
        self.assert_equal(both.idx_to_vec, np.concatenate([expected, expected], 1))

    def test_vectors_are_replaced(self):
        vectors = self.read()
        vectors.update_token_vectors(["is", "x"], nd.array([[0, 1], [2, 3]]))
        vectors.update_token_vectors("life", nd.array([8, 9]))
        self.assert_equal(vectors.idx_to_vec, [[0, 0], [0, 1], [8, 9], [2, 3]])
        with self.assertRaisesRegex(ValueError, "Token nothing is unknown"):
            vectors.update_token_vectors("nothing", nd.ones(2))
        with self.assertRaisesRegex(AssertionError, r"of the shape \(1, 2\)"):
            vectors.update_token_vectors("is", nd.ones(3))

    def test_published_vectors(self):
        self.assertIn("glove.6B.50d.txt", text.embedding.get_pretrained_file_names("glove"))
        names = text.embedding.get_pretrained_file_names()
        self.assertEqual({kind: len(files) for kind, files in names.items()}, {"glove": 10, "fasttext": 327})
        self.assertLess({"wiki.de.vec", "wiki.multi.fr.vec", "wiki-news-300d-1M.vec"}, set(names["fasttext"]))
        glove = {"embedding_name": "glove", "pretrained_file_name": "glove.6B.50d.txt", "embedding_root": self.folder}
        with self.assertRaisesRegex(FileNotFoundError, "glove/glove.6B.50d.txt is not there, .*glove.6B.zip"):
            text.embedding.create(**glove)
        os.mkdir(os.path.join(self.folder, "glove"))
        with zipfile.ZipFile(os.path.join(self.folder, "glove", "glove.6B.zip"), "w") as packed:
            packed.writestr("glove.6B.50d.txt", "the 1 2\na 3 4\n")
        self.assert_equal(text.embedding.create(**glove).idx_to_vec, [[0, 0], [1, 2], [3, 4]])
        with self.assertRaisesRegex(FileNotFoundError, "wiki.simple.vec is not there, .*vectors-wiki/wiki.simple.zip"):
            text.embedding.create("fasttext", embedding_root=self.folder)
        with self.assertRaisesRegex(KeyError, "Cannot find pretrained file wiki.en.txt for token embedding fasttext"):
            text.embedding.create("fasttext", pretrained_file_name="wiki.en.txt")
        with self.assertRaisesRegex(KeyError, "Cannot find"):
            text.embedding.get_pretrained_file_names("word2vec")
        with self.assertRaisesRegex(AssertionError, "word2vec is not registered"):
            mx.contrib.text.embedding.create("word2vec")

    def test_broken_files(self):
        for content, what in (
            ("a 1 2\nc 1 2 3\n", "line 2 .* token c has 3 numbers"),
            ("a\n", "no vector behind"),
            ("", "has no vectors"),
        ):
            with self.assertRaisesRegex(AssertionError, what):
                text.embedding.CustomEmbedding(self.write(content))
        with self.assertRaisesRegex(ValueError, "must be a valid path"):
            text.embedding.CustomEmbedding(os.path.join(self.folder, "nothing"))


if __name__ == "__main__":
    case_runner.main()
