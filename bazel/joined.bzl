"""joined_library: a cc_library whose files are compiled several at a time.

Nine tenths of what the compiler reads for a file of ours are headers of the standard library, Abseil, protobuf and gRPC, and
the same templates are made again for each. A joined file reads them once: the server's build takes half the processor's time.
So names in a room's anonymous namespaces differ from each other. `--//bazel:join=False` compiles file by file, for somebody
who changes one file again and again.
"""

def _part(path, parts):
    """Which part a file belongs to: it follows from the path alone, so a new file changes one part."""
    return hash(path) % 65521 % parts

def _joined_file_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".cc")
    inputs, lines = [], []
    for i, src in enumerate(ctx.files.srcs):
        if _part(src.short_path, ctx.attr.parts) == ctx.attr.part:
            inputs.append(src)
            lines += ["echo '#define %s %s_%d'" % (name, name, i) for name in ctx.attr.own]
            lines += ["echo '#line 1 \"%s\"'" % src.short_path, "cat '%s'" % src.path, "echo"]
            lines += ["echo '#undef %s'" % name for name in ctx.attr.own]
    # A copy, and no includes: the compiler would be told of all files of the library, and compile each part for a new one.
    ctx.actions.run_shell(
        inputs = inputs,
        outputs = [out],
        command = "{ :\n%s\n} >'%s'" % ("\n".join(lines), out.path),
        mnemonic = "JoinFiles",
        progress_message = "Joining files into %s" % out.short_path,
    )
    return [DefaultInfo(files = depset([out]))]

_joined_file = rule(
    implementation = _joined_file_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cc"]),
        "part": attr.int(),
        "parts": attr.int(),
        # Names that each file has for itself.
        "own": attr.string_list(),
    },
)

def _parts(files, size):
    """A power of two, which few new files change: another count of parts would move all files."""
    return [1 << i for i in range(10) if (1 << i) * size * 3 >= files * 2][0]

def _joined_files(name, srcs, parts, own):
    """Labels of files that hold `srcs`, each its part."""
    for part in range(parts):
        _joined_file(
            name = "%s_joined_%d" % (name, part),
            srcs = srcs,
            part = part,
            parts = parts,
            own = own,
            visibility = ["//visibility:private"],
        )
    return [":%s_joined_%d" % (name, part) for part in range(parts)]

def joined_library(name, srcs, size = 16, parts = None, own = [], copts = [], **kwargs):
    """A cc_library, and NAME_joined: the files that are compiled for it.

    size: about how many files are compiled together.
    parts: how many files are compiled in the end; it follows from size where srcs are no labels of several files.
    own: names that several files of others' making use, each for itself.
    """
    native.filegroup(
        name = name + "_joined",
        srcs = select({
            "//bazel:joined": _joined_files(name, srcs, parts or _parts(len(srcs), size), own),
            "//conditions:default": srcs,
        }),
    )
    native.cc_library(
        name = name,
        srcs = [":%s_joined" % name],
        # g++ takes a file after #line for an included one, whose anonymous types might differ from file to file.
        copts = copts + ["-Wno-subobject-linkage"],
        **kwargs
    )

def joined_test(name, srcs, deps, copts = [], files = 12, **kwargs):
    """A cc_test of files of cases. files: about how many are compiled together. Other arguments are cc_test's."""
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
