"""cuda_plugin: one shared object from sources that nvcc compiles, to be loaded by a host program."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_cuda//:defs.bzl", "CUDA_AVAILABLE", "CUDA_HOME", "CUDA_LIB", "CUDA_VERSION")

# Machine code for the GPUs of data centres (Ampere, Hopper and Blackwell) and, at the end, portable code, which any later GPU
# compiles when it first loads the plugin. All four are made from the portable one: no kernel asks which GPU it is compiled
# for, and nvcc reads the source once, not once for each.
GENCODE = "arch=compute_80,code=[sm_80,sm_90,sm_100,compute_80]"

# target_compatible_with = CUDA_ONLY: skipped by //... unless --config=cuda.
CUDA_ONLY = select({
    "//bazel:cuda": [],
    "//conditions:default": ["//bazel:incompatible"],
})

_MODE_FLAGS = {
    "opt": ["-O3", "-DNDEBUG"],
    "dbg": ["-O1", "-g", "-lineinfo"],
    "fastbuild": ["-O1"],
}

def _cuda_objects_impl(ctx):
    if not CUDA_AVAILABLE:
        fail("%s: no CUDA toolkit with cuDNN at %s; install both, or set CUDA_HOME" %
             (ctx.label, CUDA_HOME))
    cc_toolchain = find_cpp_toolchain(ctx)
    compilation = cc_common.merge_cc_infos(
        cc_infos = [d[CcInfo] for d in ctx.attr.deps],
    ).compilation_context
    headers = depset(ctx.files.hdrs, transitive = [compilation.headers])

    flags = ["-DGLUOND_GPU", "-std=c++20", "--expt-relaxed-constexpr", "--extended-lambda", "-Xcompiler=-fPIC"]
    # A file shared with the CPU has functions that only its other half uses.
    flags += ["-Werror=all-warnings", "-diag-suppress=177"]
    flags += ["-Xcompiler=-Wall,-Wextra,-Werror,-Wno-restrict,-Wno-unused-function,-Wno-unused-variable"]
    flags += _MODE_FLAGS[ctx.var["COMPILATION_MODE"]]
    flags += ["-gencode", GENCODE]

    # Temporary files lie beside the object. In one folder for all, their names were made of the source's name and the process's
    # number, which a sandbox counts from 1: batch_norm.cc and batch_norm.cu wrote each other's.
    flags.append("--objdir-as-tempdir")

    objects = []
    for src in ctx.files.srcs:
        # Named by the path below the package: kernel/reduce.cc and reduce.cc may both exist.
        stem = src.short_path[len(ctx.label.package):].lstrip("/")
        obj = ctx.actions.declare_file("_nvcc/%s/%s.o" % (ctx.label.name, stem))
        args = ctx.actions.args()
        args.add_all(flags)
        args.add_all(ctx.attr.copts)
        args.add_all(compilation.defines, before_each = "-D")
        args.add_all(compilation.quote_includes, before_each = "-I")
        args.add_all(compilation.includes, before_each = "-I")
        args.add_all(compilation.system_includes, before_each = "-isystem")
        args.add("-ccbin", cc_toolchain.compiler_executable)
        args.add_all(["-x", "cu", "-c", src.path, "-o", obj.path])
        ctx.actions.run(
            executable = CUDA_HOME + "/bin/nvcc",
            arguments = [args],
            # Its own source and the headers: an edit of one operator compiles one operator.
            inputs = depset([src], transitive = [headers]),
            outputs = [obj],
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s with nvcc" % src.short_path,
            env = {
                # Not read by anything: makes a new toolkit rebuild the objects.
                "CUDA_TOOLKIT_VERSION": CUDA_VERSION,
                # nvcc runs the host compiler, which writes its intermediate files here.
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "TMPDIR": "/tmp",
            },
        )
        objects.append(obj)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cc", ".cu"], mandatory = True),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_objects(name, **kwargs):
    """Objects that nvcc makes of srcs, for --config=cuda only."""
    _cuda_objects(name = name, target_compatible_with = CUDA_ONLY, **kwargs)

def _headers_only_impl(ctx):
    infos = cc_common.merge_cc_infos(cc_infos = [d[CcInfo] for d in ctx.attr.deps])
    return [CcInfo(compilation_context = infos.compilation_context)]

headers_only = rule(
    implementation = _headers_only_impl,
    doc = "The headers of its deps without their code: what a shared object finds in the program that loads it.",
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
    provides = [CcInfo],
)

def cuda_plugin(name, srcs, hdrs = [], deps = [], copts = [], testonly = False, visibility = None):
    """The shared object `name` (call it lib*.so), for --config=cuda only.

    srcs: compiled as CUDA, each for itself, whatever their suffix.
    deps: give headers and defines, no code. What they define is left undefined, to be found in the
        program that loads the plugin: it depends on //bazel:plugin_host, and has the whole of the engine.

    The CUDA runtime is linked statically. cuBLAS and cuDNN are looked up in the toolkit that built
    the plugin, then in ../lib beside the plugin, then where the system looks.
    """
    cuda_objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        copts = copts,
        testonly = testonly,
        visibility = ["//visibility:private"],
        deps = deps,
    )
    native.cc_binary(
        name = name,
        srcs = [":" + name + "_objects"],
        linkopts = [
            "-Wl,--enable-new-dtags",
            "-Wl,-rpath," + CUDA_LIB,
            "-Wl,-rpath,$$ORIGIN/../lib",
        ],
        linkshared = True,
        target_compatible_with = CUDA_ONLY,
        testonly = testonly,
        visibility = visibility,
        deps = [
            "@local_cuda//:cublas",
            "@local_cuda//:cudart_static",
            "@local_cuda//:cudnn",
        ],
    )
