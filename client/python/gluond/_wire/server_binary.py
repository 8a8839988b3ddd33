"""Where the program gluond-server is: at GLUOND_SERVER, in the wheel, on PATH, or in the build of the checkout."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import urllib.parse
import urllib.request
from importlib import metadata
from typing import List, Optional

from ..base import MXNetError

BUILD_COMMAND = "bazel build //server:gluond-server"
_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
_BUILT = os.path.join("bazel-bin", "server", "gluond-server")


def find() -> str:
    """Path of the program. MXNetError: there is none, and how to get one."""
    named = os.environ.get("GLUOND_SERVER")
    if named:
        if _can_run(named):
            return named
        raise MXNetError(f"GLUOND_SERVER={named} is no program that can be run")
    sources = checkouts()
    for path in (
        str(_PACKAGE / "_bin" / "gluond-server"),
        shutil.which("gluond-server"),
        *(str(checkout / _BUILT) for checkout in sources),
    ):
        if path and _can_run(path):
            return path
    build = (
        f"`cd {sources[0]} && {BUILD_COMMAND}`"
        if sources
        else (f"`{BUILD_COMMAND}` in a checkout of gluond, and GLUOND_SERVER=<checkout>/{_BUILT} where this program runs")
    )
    raise MXNetError(
        "There is no gluond-server to start: it was looked for at GLUOND_SERVER, in the installed package, on "
        f"PATH and in the checkout. Build it: {build}. Or use a running one: GLUOND_ADDRESS=host:port, or "
        "mx.connect('host:port')."
    )


def _can_run(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def checkouts() -> List[pathlib.Path]:
    """The checkout that the package lies in (PYTHONPATH, an editable install), and the one that pip installed it from."""
    places = [folder for folder in (_PACKAGE, _installed_from()) if folder is not None]
    return [folder for place in places for folder in place.parents if (folder / "WORKSPACE").exists()]


def _installed_from() -> Optional[pathlib.Path]:
    """The folder that was given to `pip install`, as pip has noted it down."""
    try:
        noted = metadata.distribution("gluond").read_text("direct_url.json")
        url = urllib.parse.urlsplit(json.loads(noted or "{}").get("url", ""))
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return None
    return pathlib.Path(urllib.request.url2pathname(url.path)) if url.scheme == "file" else None
