"""fuzz_target: one file that defines LLVMFuzzerTestOneInput, as a fuzzer and as a test."""

load("//bazel:copts.bzl", "COPTS")

def fuzz_target(name, deps, structured = False):
    """`name`_fuzz, for --config=fuzz; and `name`_test, which any compiler builds, over corpus/`name`.

    structured: the input is a message (STRUCTURED_FUZZ_TARGET), which mutator.cc changes.
    """
    native.cc_binary(
        name = name + "_fuzz",
        testonly = True,
        srcs = [name + ".cc"],
        copts = COPTS,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps + [":fuzz"] + ([":mutator"] if structured else []),
    )
    native.cc_test(
        name = name + "_test",
        size = "small",
        srcs = [name + ".cc"],
        args = ["tests/fuzz/corpus/" + name],
        copts = COPTS,
        data = native.glob(["corpus/%s/*" % name]),
        deps = deps + [":fuzz", ":replay"],
    )
