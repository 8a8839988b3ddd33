"""The words of docs/architecture.md: each is defined where the table says, and no other header of the engine, operators or server uses it for
something else. And sentences in comments: each has a noun for its subject, as far as its first word tells, in
Python's docstrings, too, and at most 30 words in C++ and protos. Names of Python's classes, functions and files say what they are."""

import ast
import os
import pathlib
import re
import unittest

from tests import case_runner

ROOT = pathlib.Path(os.path.realpath(__file__)).parent.parent
DEFINITION = re.compile(r"^ *(?:class|struct|enum class|enum) (?:\w+::)*(\w+)(?: final)?(?: :[^:;{][^;{]*)?\s*\{", re.MULTILINE)
# Text that has no braces of code: comments, strings and characters; and what opens or closes a brace.
NO_CODE = re.compile(r"""//[^\n]*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.DOTALL)
BRACE = re.compile(
    r"\bnamespace\b([^;{=]*)\{|\b(?:class|struct|enum class|enum|union)\s+([\w:]+)(<[^{;]*>)?(?:\s+final)?"
    r"\s*(?::(?!:)[^;{]*)?\{|[{}]"
)
ROOMS = ("engine", "ops", "server", "client", "proto")
# A sentence that begins so has no noun for its subject, or has it after its reader has guessed at one.
PYTHON_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
# MXNet's public names, each of which it has given to two classes, or gluond's `mx.remote` has.
TWICE = set(
    """BidirectionalCell Constant Dataset DropoutCell GRUCell LSTMCell Loss ModifierCell RNNCell ResidualCell
    SequentialRNNCell ZoneoutCell""".split()
)
# Words that say nothing of the thing that has the name, of classes and files, and of functions; and MXNet's public names that have them.
EMPTY = {"manager", "helper", "util", "utils", "impl", "base", "data", "info", "handle", "process"}
EMPTY_OF_FUNCTIONS = {"manager", "helper", "util", "impl", "handle"}
OF_MXNET = set(
    """BaseConvRNNCell BaseModule BaseRNNCell DataBatch DataDesc DataIter DataLoader DataLoaderIter DataParallelExecutorGroup
    HookHandle KVStoreBase NameManager _backward_impl base base_module data stat_helper test_utils util utils""".split()
)
# The description of an operator, which the arrays' rooms know by this name.
OF_ARRAYS = {"OperatorInfo"}
# Names that have to be guessed at, with or without an underscore.
CRYPTIC = {"again", "caller", "each", "filling", "inside", "keep", "kept", "leaves", "starts", "wants_wanted", "watched"}
# Sentences that tell a reader to guess.
GUESSED = re.compile(r"See above|nobody has any more|what it becomes", re.IGNORECASE)
ITEM = re.compile(r" *(?:\*|-|\d+\.) +(?=\S)")  # Begins an item of a list.
# Words of a sentence in a comment of C++ or a proto; and the protos that are other projects'.
LONGEST = 30
OF_OTHERS = ("proto/health/",)
NOUNLESS = re.compile(r"(?:^|[.!?]\)? +\(?)((?:What|Of|That of|Those of|Who|Whoever|Whose|Whatever|Where what|As what) .*)")


def words(readme):
    """(word, header) for each row of the table."""
    table = readme.partition("\n## Words\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|.*\| `([^`]+)` \|$", table, re.MULTILINE)


def definitions(headers):
    """The headers that define each name, once for each definition."""
    found = {}
    for path, text in headers.items():
        for name in DEFINITION.findall(text):
            found.setdefault(name, []).append(path)
    return found


def classes_of_namespaces(text):
    """The classes and enums that a file of C++ defines in gluond's namespaces, unnamed ones included, and not within a class."""
    found, inside = [], []
    for match in BRACE.finditer(NO_CODE.sub('""', text)):
        if match[0] == "}":
            inside.pop()
            continue
        if match[2] and "::" not in match[2] and not match[3] and all(inside) and inside[:1] == ["gluond"]:
            found.append(match[2])
        inside.append(match[1].strip().partition("::")[0] or "unnamed" if match[1] is not None else None)
    return found


def paragraphs(text, mark):
    """(line, paragraph) for each paragraph of the comments that `mark` begins. A comment beside code is a paragraph, and so is an
    item of a list; lines that stand further in show code, a formula or a table, and end a paragraph."""
    found, goes_on, is_item = [], False, False
    for number, line in enumerate(text.splitlines(), 1):
        alone = re.match(rf"\s*{mark} (.*)", line)
        comment = alone or re.search(rf"  {mark} (.*)", line)
        item = comment and ITEM.match(comment[1])
        if alone and not item and alone[1].startswith("  ") and not (goes_on and is_item):
            goes_on = False
            continue
        if alone and goes_on and not item:
            found[-1][1] += " " + alone[1].strip()
        elif comment:
            is_item = item is not None
            found.append([number, comment[1][item.end() :] if item else comment[1]])
        goes_on = alone is not None
    return found


def sentences(paragraph):
    """The sentences of a paragraph. A point ends none in an abbreviation, a number, a name, between backquotes or in a URL."""
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "_"), paragraph)
    parts = re.split(r"(?<!e\.g\.)(?<!i\.e\.)(?<!\bal\.)(?<!\bvs\.)((?<=[.!?])|(?<=[.!?][)\"']))\s+(?!\.\.)", whole)
    return [part for part in parts if part]


def long_sentences(text, mark="//"):
    """(line of its paragraph, words, sentence) for those of more than LONGEST words: signs like `=` alone are no words."""
    found = []
    for line, paragraph in paragraphs(text, mark):
        for sentence in sentences(paragraph):
            count = sum(1 for word in sentence.split() if re.search(r"\w", word))
            if count > LONGEST:
                found.append((line, count, sentence))
    return found


def nounless(text, mark="//"):
    """(line of its paragraph, rest of the paragraph) for sentences that begin without a noun."""
    return [(line, match[1]) for line, paragraph in paragraphs(text, mark) for match in NOUNLESS.finditer(paragraph)]


def docstrings(text):
    """(line, paragraph) for each paragraph of the docstrings of a Python file."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            for paragraph in re.split(r"\n\s*\n", ast.get_docstring(node)):
                yield node.body[0].lineno, " ".join(paragraph.split())


def says_nothing(name, words):
    """Whether one of a name's words is among these, or the whole of it is to be guessed at: StateManager, _keep."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().split("_")
    return name.lower().strip("_") in CRYPTIC or bool(words & set(parts)) and name not in OF_MXNET | OF_ARRAYS


def names_that_say_nothing(stem, text):
    """Those of a Python file, of its classes and functions, and of what its `for` statements go through."""
    found = [(stem, EMPTY)]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            found.append((node.name, EMPTY))
        elif isinstance(node, ast.FunctionDef):
            found.append((node.name, EMPTY_OF_FUNCTIONS))
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            found.append((node.target.id, set()))
    return [name for name, words in found if says_nothing(name, words)]


def python_files():
    """(path, text) of the Python package, but for the arrays and the custom operators."""
    package = ROOT / "client" / "python" / "gluond"
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] not in ("_array", "_custom"):
            yield path.relative_to(package), path.read_text()


class WordsTest(unittest.TestCase):
    def test_each_word_is_one_thing(self):
        headers = {
            str(path.relative_to(ROOT)): path.read_text()
            for room in ("engine", "ops", "server")
            for path in (ROOT / room).rglob("*.h")
        }
        rows, found = words((ROOT / "docs" / "architecture.md").read_text()), definitions(headers)
        self.assertGreater(len(rows), 20)
        for word, header in rows:
            with self.subTest(word=word):
                self.assertEqual(found.get(word), [header])

    def test_a_second_meaning_is_found(self):
        headers = {"a.h": "class Lane {\n", "b.h": "struct Road {\n  enum class Lane { kLeft };\n};\nclass Other;\n"}
        self.assertEqual(definitions(headers), {"Lane": ["a.h", "b.h"], "Road": ["b.h"]})

    def test_each_class_of_a_namespace_is_one_thing(self):
        found = {}
        for room in ("engine", "server"):
            for path in sorted(path for path in (ROOT / room).rglob("*") if path.suffix in (".h", ".cc")):
                for name in classes_of_namespaces(path.read_text()):
                    found.setdefault(name, []).append(str(path.relative_to(ROOT)))
        self.assertGreater(len(found), 500)
        for name, paths in found.items():
            with self.subTest(name=name):
                self.assertEqual(len(paths), 1, paths)

    def test_classes_of_namespaces_are_found(self):
        text = """
namespace gluond { class Declared; }
namespace gluond::net {
namespace {
// class Comment {
const char* text = "struct Text {";
template <class T>
class Queue final : public Base<T> {
  struct Nested { int n; };
  char brace = '{';
};
enum class Color : int { kRed };
void F() { struct Local {}; }
template <> struct Special<int> {};
}  // namespace
struct Queue::Inner {};
}
namespace grpc_core { class Executor {}; }
"""
        self.assertEqual(classes_of_namespaces(text), ["Queue", "Color"])

    def test_each_class_of_the_python_package_is_one_thing(self):
        found = {}
        for path in sorted((ROOT / "client" / "python" / "gluond").rglob("*.py")):
            for name in PYTHON_CLASS.findall(path.read_text()):
                found.setdefault(name, []).append(str(path.relative_to(ROOT)))
        self.assertGreater(len(found), 400)
        self.assertEqual({name: paths for name, paths in found.items() if len(paths) > 1 and name not in TWICE}, {})
        self.assertEqual({name for name in TWICE if len(found.get(name, ())) < 2}, set())

    def test_sentences_in_comments_have_nouns(self):
        paths = [
            path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in (".h", ".cc", ".cu", ".py", ".proto")
        ]
        self.assertGreater(len(paths), 700)
        for path in paths:
            with self.subTest(path=str(path.relative_to(ROOT))):
                self.assertEqual(nounless(path.read_text(), "#" if path.suffix == ".py" else "//"), [])

    def test_sentences_in_docstrings_have_nouns(self):
        for path, text in python_files():
            with self.subTest(path=str(path)):
                self.assertEqual(
                    [(line, match[1]) for line, paragraph in docstrings(text) for match in NOUNLESS.finditer(paragraph)], []
                )

    def test_no_sentence_is_to_be_guessed(self):
        for path, text in python_files():
            with self.subTest(path=str(path)):
                self.assertEqual(GUESSED.findall(text), [])

    def test_names_say_of_what_they_are(self):
        for path, text in python_files():
            with self.subTest(path=str(path)):
                self.assertEqual(names_that_say_nothing(path.stem, text), [])

    def test_names_that_say_nothing_are_found(self):
        text = """
class StateManager: ...
class IOBase: ...
class Dataset: ...
class KVStoreBase: ...
class Leaves: ...
def keep(): ...
def data_shapes(): ...
def load_helper():
  for each in ():
    pass
"""
        self.assertEqual(
            sorted(names_that_say_nothing("io_utils", text)),
            ["IOBase", "Leaves", "StateManager", "each", "io_utils", "keep", "load_helper"],
        )

    def test_sentences_in_comments_are_short(self):
        paths = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in (".h", ".cc", ".cu", ".proto")]
        self.assertGreater(len(paths), 700)
        for path in paths:
            with self.subTest(path=str(path.relative_to(ROOT))):
                if not str(path.relative_to(ROOT)).startswith(OF_OTHERS):
                    self.assertEqual(long_sentences(path.read_text()), [])

    def test_sentences_end_where_a_reader_ends_them(self):
        self.assertEqual(
            sentences('A lane is an order. Works wait (see lane.h)! Do they? (They do.) Yes: "all." And e.g. this one, i.e. it.'),
            [
                "A lane is an order.",
                "Works wait (see lane.h)!",
                "Do they?",
                "(They do.)",
                'Yes: "all."',
                "And e.g. this one, i.e. it.",
            ],
        )
        self.assertEqual(
            sentences("LAMB (You et al., 2019) takes 1.5 of it; Smith et al. (2020) take more."),
            ["LAMB (You et al., 2019) takes 1.5 of it; Smith et al. (2020) take more."],
        )
        self.assertEqual(
            sentences("The call `f(x). g(y) + 1` is code. See https://example.org/a.b?c=d for more."),
            ["The call `f(x)._g(y)_+_1` is code.", "See https://example.org/a.b?c=d for more."],
        )

    def test_long_sentences_are_found(self):
        words = " ".join(["word"] * 15)
        text = f"""// {words} {words}. {words}
// {words}, e.g. one.
//
// * {words}
//   {words} more.
// * {words}
// * {words}, w <- w - lr * g = 0.
//   Short.
//   1. {words}
//      {words} more.
//
// The formula is:
//   {words} {words} y = x
// {words}. `{words}` {words}
// {words[:-5]}.
int n;  // {words} {words} {words}.
"""
        self.assertEqual([(line, count) for line, count, _ in long_sentences(text)], [(1, 32), (4, 31), (9, 31), (16, 45)])

    def test_sentences_without_nouns_are_found(self):
        text = """// A lane's order. It is fair, as
// Whatever else is. What waits is
// done.
//
// Of the lane.
int n;  // Whose it is.
// * Those of others.
// * What "Of" means. (Who asks?)
// Each of them; what waits, waits.
const char* url = "http://What is this";
"""
        self.assertEqual([line for line, _ in nounless(text)], [1, 5, 6, 7, 8])
        self.assertEqual(nounless("x = 1  # As what it is.\n", "#"), [(1, "As what it is.")])


if __name__ == "__main__":
    case_runner.main()
