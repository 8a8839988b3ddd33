"""library_package: the C++ client as a library for programs that Bazel does not build, in an archive.

The library has a copy of the messages of its own, of protobuf's lite kind, which registers nothing: two copies of a full message
in one program end it. All symbols but the public classes' are hidden, so that the copies' names do not meet either.
"""

_SERVICES = ["group", "model", "operator", "server", "serving", "session", "training"]

_MESSAGES = ["gluond/v1/" + name for name in _SERVICES + [
    "call",
    "checkpoint",
    "command",
    "custom_operator",
    "dataset",
    "explain",
    "graph",
    "parameters",
    "saved_session",
    "tensor",
    "trainer",
]] + [
    "google/rpc/error_details",
    "google/rpc/status",
    "proto/inference/grpc_service",
    "proto/inference/model_config",
]

_STUBS = ["gluond/v1/" + name for name in _SERVICES] + ["proto/inference/grpc_service"]

def library_package(name, srcs, headers, private_headers, descriptors, files, version):
    """NAME, an archive gluond-VERSION.tar.gz with a folder of that name.

    srcs: the sources of the library, but for the messages.
    headers: the public headers; private_headers: others that srcs include.
    descriptors: the messages.
    files: the templates of gluond.pc and gluondConfig.cmake.
    """
    generated = [
        "private/" + source + extension
        for sources, extensions in [(_MESSAGES, [".pb.h", ".pb.cc"]), (_STUBS, [".grpc.pb.h", ".grpc.pb.cc"])]
        for source in sources
        for extension in extensions
    ]
    native.genrule(
        name = name + "_messages",
        srcs = [descriptors],
        outs = generated,
        cmd = "$(execpath :private_protos) $< $(RULEDIR)/private.binpb && " +
              "$(execpath @com_google_protobuf//:protoc) --descriptor_set_in=$(RULEDIR)/private.binpb " +
              "--cpp_out=lite:$(RULEDIR)/private " + " ".join([source + ".proto" for source in _MESSAGES]) + " && " +
              "$(execpath @com_google_protobuf//:protoc) --descriptor_set_in=$(RULEDIR)/private.binpb " +
              "--plugin=protoc-gen-grpc=$(execpath @com_github_grpc_grpc//:grpc_cpp_plugin) " +
              "--grpc_out=$(RULEDIR)/private " + " ".join([source + ".proto" for source in _STUBS]),
        tools = [
            ":private_protos",
            "@com_github_grpc_grpc//:grpc_cpp_plugin",
            "@com_google_protobuf//:protoc",
        ],
        visibility = ["//visibility:private"],
    )
    hidden = [
        "-fPIC",
        "-fno-gnu-unique",
        "-fvisibility=hidden",
        "-fvisibility-inlines-hidden",
    ]
    for part, sources, copts in [
        ("messages", [":%s_joined_messages" % name], ["-w"]),
        ("library", srcs, ["-Wno-subobject-linkage"]),
    ]:
        native.cc_library(
            name = "%s_%s_objects" % (name, part),
            srcs = sources,
            copts = hidden + copts,
            features = ["-supports_pic"],  # One archive, of what `hidden` makes so.
            includes = [
                ".",
                "private",
            ],
            linkstatic = True,
            textual_hdrs = headers + private_headers + [each for each in generated if each.endswith(".h")],
            visibility = ["//visibility:private"],
            deps = ["@com_google_absl//:absl"],
        )

    # protoc's variables have one name in all files.
    native.genrule(
        name = name + "_joined_messages",
        srcs = [each for each in generated if each.endswith(".cc")],
        outs = [name + "_messages.cc"],
        cmd = "number=0; for each in $(SRCS); do " +
              "echo \"#define schemas schemas_$$((++number))\"; echo \"#define file_default_instances instances_$$number\"; " +
              "cat $$each; echo '#undef schemas'; echo '#undef file_default_instances'; done >$@",
        visibility = ["//visibility:private"],
    )
    native.genrule(
        name = name,
        srcs = headers + files + [
            ":%s_library_objects" % name,
            ":%s_messages_objects" % name,
        ],
        outs = ["gluond-%s.tar.gz" % version],
        cmd = "$(execpath :pack_library) --version %s --out $@ --objects '$(execpaths :%s_library_objects) " % (version, name) +
              "$(execpaths :%s_messages_objects)' " % name + " ".join(["$(execpath %s)" % each for each in headers + files]),
        tools = [":pack_library"],
    )
