"""joined_library: a cc_library whose files are compiled several at a time.

Nine tenths of what the compiler reads for a file of ours are headers of the standard library, Abseil, protobuf and gRPC, and
the same templates are made again for each. A joined file reads them once: the server's build takes half the processor's time.
So names in a room's anonymous namespaces differ from each other. `--//bazel:join=False` compiles file by file, for somebody
who changes one file again and again.
"""

def _joined_file_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".cc")
    lines = []
    for i, src in enumerate(ctx.files.srcs):
        lines += ["#define %s %s_%d" % (name, name, i) for name in ctx.attr.own]
        lines.append('#include "%s"' % src.short_path)
        lines += ["#undef " + name for name in ctx.attr.own]
    ctx.actions.write(out, "\n".join(lines) + "\n")
    return [DefaultInfo(files = depset([out]))]

_joined_file = rule(
    implementation = _joined_file_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cc"]),
        # Names that each file has for itself.
        "own": attr.string_list(),
    },
)

def _joined_files(name, srcs, size, own):
    """Labels of files that include `srcs`, `size` of them at most each."""
    count = (len(srcs) + size - 1) // size
    files = []
    for i in range(count):
        _joined_file(
            name = "%s_joined_%d" % (name, i),
            srcs = srcs[i * len(srcs) // count:(i + 1) * len(srcs) // count],
            own = own,
            visibility = ["//visibility:private"],
        )
        files.append(":%s_joined_%d" % (name, i))
    return files

def joined_library(name, srcs, size = 16, own = [], copts = [], textual_hdrs = [], **kwargs):
    """A cc_library, and NAME_joined: the files that are compiled for it.

    size: the files that are compiled together, at most.
    own: names that several files of others' making use, each for itself.
    """
    native.filegroup(
        name = name + "_joined",
        srcs = select({
            "//bazel:joined": _joined_files(name, srcs, size, own),
            "//conditions:default": srcs,
        }),
    )
    native.cc_library(
        name = name,
        srcs = [":%s_joined" % name],
        # A type of an anonymous namespace is no risk in a file that only one joined file includes. And __FILE__ is the path as
        # it is where the file is compiled alone.
        copts = copts + ["-Wno-subobject-linkage", "-fmacro-prefix-map=./="],
        textual_hdrs = textual_hdrs + select({
            "//bazel:joined": srcs,
            "//conditions:default": [],
        }),
        **kwargs
    )

def joined_test(name, srcs, deps, copts = [], files = 12, **kwargs):
    """A cc_test of files of cases. files: those that are compiled together, at most. Other arguments are cc_test's."""
    joined_library(
        name = name + "_cases",
        size = files,
        testonly = True,
        srcs = srcs,
        alwayslink = True,  # googletest finds the cases.
        copts = copts,
        deps = deps + ["@com_google_googletest//:gtest"],
    )
    native.cc_test(
        name = name,
        deps = [
            ":%s_cases" % name,
            "@com_google_googletest//:gtest_main",
        ],
        **kwargs
    )
