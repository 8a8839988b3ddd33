"""op_test: a file of operator cases, as a library and as a test."""

load("//bazel:copts.bzl", "COPTS")

def op_test(name):
    """NAME_test.cc becomes :NAME_cases, for programs that link the cases of all operators, and :NAME_test."""
    native.cc_library(
        name = name + "_cases",
        testonly = True,
        srcs = [name + "_test.cc"],
        copts = COPTS,
        alwayslink = True,
        deps = [
            ":op_case",
            "//engine/core",
            "//engine/passes",
            "//ops",
            "//ops/kernel",
            "@com_google_absl//:absl",
            "@com_google_googletest//:gtest",
        ],
    )
    native.cc_test(
        name = name + "_test",
        size = "small",
        deps = [
            ":%s_cases" % name,
            "@com_google_googletest//:gtest_main",
        ],
    )
