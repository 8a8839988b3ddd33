"""server_room: one target for a folder of the server."""

load("//bazel:copts.bzl", "COPTS")
load("//bazel:joined.bzl", "joined_library")

# The rooms, from the lowest on, with the rooms that they may import. tests/layers_test.py holds the same over includes.
_MAY_IMPORT = {
    "start": [],
    "config": [],
    "identity": ["config"],
    "net": ["start"],
    "wire": [],
    "codec": ["wire"],
    "rpc": ["start", "config", "identity", "net", "wire", "codec"],
    "hosted": ["start", "identity", "wire", "codec"],
    "custom": ["identity", "wire", "codec", "rpc"],
    "durable": ["start", "identity", "codec", "rpc", "hosted"],
    "session": ["start", "identity", "wire", "codec", "rpc", "hosted", "custom", "durable"],
    "serving": ["start", "config", "identity", "net", "codec", "rpc", "hosted", "custom", "durable"],
    "group": ["start", "identity", "wire", "codec", "rpc", "hosted", "custom"],
    "services": ["start", "net", "wire", "codec", "rpc", "hosted", "custom", "durable", "session", "serving", "group"],
    "follow": ["start", "codec", "rpc", "hosted", "serving"],
    "sight": ["start", "config", "identity", "net", "codec", "rpc", "hosted", "custom", "serving", "group", "follow"],
}

ROOMS = ["//server/" + room for room in sorted(_MAY_IMPORT)]

# Libraries that most rooms use beside each other.
ENGINE_AND_PROTO = [
    "//engine/core",
    "//engine/core:error_info",
    "//engine/imperative",
    "//engine/nn",
    "//engine/passes",
    "//engine/runtime",
    "//engine/store",
    "//engine/train",
    "//proto:gluond_cc_proto",
    "//proto/inference:inference_cc_proto",
]

def server_room(name, deps = ENGINE_AND_PROTO, apart = []):
    """The folder's files, which the rooms above it and the tests may use.

    deps: beside the rooms below it and the libraries.
    apart: files that are targets of their own.
    """
    joined_library(
        name = name,
        srcs = native.glob(["**/*.cc"], exclude = apart),
        hdrs = native.glob(["**/*.h"], exclude = apart),
        copts = COPTS,
        visibility = ["//server/%s:__pkg__" % room for room in _MAY_IMPORT if name in _MAY_IMPORT[room]] +
                     ["//server:__pkg__", "//tests:__subpackages__"],
        deps = sorted(deps + ["//server/" + room for room in _MAY_IMPORT[name]]) + [
            "@com_github_grpc_grpc//:grpc++",
            "@com_google_absl//:absl",
            "@com_google_protobuf//:protobuf",
        ],
    )
