"""The snippets of a document as one program, as a reader runs them: from the top, in one shell.

A block in `sh` is a part of the shell's script; one in `python` is a program of its own, or, in a document that says
`<!-- one program -->`, all of them are one. A line `<!-- not played: REASON -->` before a block leaves it out.
"""

import re

_BLOCK = re.compile(r"(?:<!-- not played: (?P<reason>[^>]+) -->\n)?^```(?P<language>sh|python)\n(?P<code>.*?)^```", re.M | re.S)


def blocks(text):
    """(language, code) of each block that is played."""
    return [(each["language"], each["code"]) for each in _BLOCK.finditer(text) if each["reason"] is None]


def left_out(text):
    """The reasons for which blocks are not played."""
    return [each["reason"] for each in _BLOCK.finditer(text) if each["reason"] is not None]


def python(code):
    return f"python - <<'END'\n{code}END\n"


# Servers that a document leaves are ended, and the shell waits for them: they write into its folder until they have ended.
_BEGIN = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"


def script(text):
    """For bash, which ends at the first error."""
    played = blocks(text)
    if "<!-- one program -->" in text:
        shell = [code for language, code in played if language == "sh"]
        program = "\n".join(code for language, code in played if language == "python")
        return _BEGIN + "".join(shell) + python(program)
    return _BEGIN + "".join(code if language == "sh" else python(code) for language, code in played)
