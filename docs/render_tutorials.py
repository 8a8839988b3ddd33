"""Renders the tutorials of tests/seeds with their real output.

    /usr/bin/python3 docs/render_tutorials.py [NAME...]

Writes docs/tutorials/NAME.md from tests/seeds/NAME.py: text from `# %% [markdown]` cells, code from `# %%` cells, each
followed by what it prints. Where there is a NAME.cc, its code and what it prints follow; //tests/seeds has been built. Needs a
gluond-server, which it finds as the client does.
"""

import contextlib
import io
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests" / "seeds"
TARGET = ROOT / "docs" / "tutorials"


def cells(text):
    """Yields (is_markdown, lines) for each cell of a program."""
    is_markdown, lines = False, []
    for line in text.splitlines():
        if line.startswith("# %%"):
            if lines:
                yield is_markdown, lines
            is_markdown, lines = line.startswith("# %% [markdown]"), []
        else:
            lines.append(line)
    yield is_markdown, lines


def render(path):
    """The program as Markdown, with what each of its cells prints when it runs."""
    names = {"__name__": "__main__"}
    parts = []
    for is_markdown, lines in cells(path.read_text(encoding="utf-8")):
        if is_markdown:
            parts.append("\n".join(line[2:] for line in lines))
            continue
        code = "\n".join(lines).strip()
        parts.append(f"```python\n{code}\n```")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, path.name, "exec"), names)  # The repository's own programs.
        if printed.getvalue().strip():
            parts.append("```\n" + printed.getvalue().strip("\n") + "\n```")
    parts.append(f"The program: `tests/seeds/{path.name}`.")
    in_cpp = path.with_suffix(".cc")
    if in_cpp.exists():
        printed = subprocess.run([ROOT / "bazel-bin/tests/seeds" / path.stem], capture_output=True, text=True, check=True).stdout
        parts += ["## The same in C++", f"```cpp\n{in_cpp.read_text(encoding='utf-8').strip()}\n```"]
        parts += [f"```\n{printed.strip()}\n```", f"The program: `tests/seeds/{in_cpp.name}`."]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def main(wanted):
    sys.path.insert(0, str(ROOT / "client" / "python"))
    TARGET.mkdir(exist_ok=True)
    for path in sorted(SOURCES.glob("*.py")):
        if path.stem.endswith("_test") or (wanted and path.stem not in wanted):
            continue
        (TARGET / f"{path.stem}.md").write_text(render(path), encoding="utf-8")
        print(f"docs/tutorials/{path.stem}.md")


if __name__ == "__main__":
    main(sys.argv[1:])
