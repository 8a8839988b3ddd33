"""README and docs: their links lead somewhere, and the words that people search for stand where a reader finds them."""

import os
import pathlib
import re
import tempfile
import unittest

from tests import case_runner

ROOT = pathlib.Path(os.path.realpath(__file__)).parent.parent.parent
DOCUMENTS = (
    "README.md",
    "CHANGELOG.md",
    "client/cpp/README.md",
    "client/python/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
)
WORDS = ("mTLS", "RBAC", "rate limit", "graceful shutdown", "liveness", "readiness", "rotation", "Kubernetes", "Helm", "HPA")
NOT_THERE = ("ONNX", "REST", "several GPUs", "AMP", "profiler", "TensorBoard", "quantization", "sparse storage")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(text):
    """What GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-") for heading in headings}


def broken_links(root, documents):
    """document: link, for each that leads to no file or heading. Links to other sites are taken as good."""
    for document in documents:
        text = pathlib.Path(root, document).read_text()
        for link in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", text)):
            path, _, anchor = link.partition("#")
            if "://" in link:
                continue
            target = pathlib.Path(root, document).parent / path if path else pathlib.Path(root, document)
            if not target.exists() or anchor and anchor not in anchors(target.read_text()):
                yield f"{document}: {link}"


def first_cells(text, heading):
    """The first column of the table below a heading."""
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE)[2:]


class DocumentsTest(unittest.TestCase):
    def test_links_lead_somewhere(self):
        self.assertGreater(len(DOCUMENTS), 15)
        self.assertEqual(list(broken_links(ROOT, DOCUMENTS)), [])

    def test_links_that_lead_nowhere_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.md").write_text("# On `a`, b\n[a](#on-a-b) [b](b.md#b) [c](a.md#c) `[d](d.md)` [e](e.md)\n")
            pathlib.Path(folder, "b.md").write_text("```\n# c\n```\n## B\n")
            self.assertEqual(list(broken_links(folder, ["a.md", "b.md"])), ["a.md: a.md#c", "a.md: e.md"])

    def test_words_that_people_search_for_stand_in_the_reference(self):
        reference = (ROOT / "docs/reference.md").read_text()
        cells = ", ".join(first_cells(reference, "Words from elsewhere")).split(", ")
        for word in WORDS:
            self.assertEqual(cells.count(word), 1, word)
        absent = ", ".join(first_cells(reference, "What it does not do"))
        for word in NOT_THERE:
            self.assertRegex(absent, rf"\b{word}\b")

    def test_the_readme_is_read_in_five_minutes(self):
        self.assertLess(len((ROOT / "README.md").read_text().splitlines()), 200)

    def test_an_operator_has_its_four_commands(self):
        operators = (ROOT / "docs/operators.md").read_text()
        for command in (
            "bazel test //tests/ops:ops_test --test_filter='*Swish*'",
            "bazel build //server:gluond-server",
            "bazel test //tests/ops:ops_test",
            "bazel build --config=cuda //ops:libgluond_cuda.so",
        ):
            self.assertRegex(operators, rf"(?m)^{re.escape(command)} +# ")
            folder, target = re.search(r"//(\S+):(\S+)", command).groups()
            self.assertIn(target, (ROOT / folder / "BUILD").read_text(), f"{folder}/BUILD does not build {target}")


if __name__ == "__main__":
    case_runner.main()
