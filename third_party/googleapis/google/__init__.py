"""`google` has many folders, protobuf's among them. Bazel would put an empty file here, which hides that one."""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)
