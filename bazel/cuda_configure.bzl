"""@local_cuda: where the CUDA toolkit is (or that there is none). Never fails."""

# NVIDIA's archive puts cuDNN into the toolkit; its Debian package puts it where the compiler looks.
_CUDNN = ["%s/include/cudnn.h", "/usr/include/cudnn.h", "/usr/include/x86_64-linux-gnu/cudnn.h"]

def _cuda_configure_impl(rctx):
    home = rctx.os.environ.get("CUDA_HOME", "") or rctx.os.environ.get("CUDA_PATH", "")
    if not home:
        home = "/usr/local/cuda"
    nvcc = rctx.path(home + "/bin/nvcc")
    available = False
    version = ""
    if nvcc.exists:
        for header in _CUDNN:
            available = available or rctx.path(header.replace("%s", home)).exists
        res = rctx.execute([nvcc, "--version"])
        if res.return_code == 0 and "release " in res.stdout:
            version = res.stdout.split("release ")[1].split(",")[0]
    lib = home + "/lib64"
    rctx.file("defs.bzl", "\n".join([
        "CUDA_AVAILABLE = %r" % available,
        "CUDA_HOME = %r" % home,
        "CUDA_LIB = %r" % lib,
        "CUDA_VERSION = %r" % version,
        "",
    ]))
    rctx.template("BUILD.bazel", rctx.attr._template, {"%{lib}": lib})

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    attrs = {
        "_template": attr.label(default = "//third_party:cuda.BUILD.tpl", allow_single_file = True),
    },
    environ = ["CUDA_HOME", "CUDA_PATH"],
    local = True,
)
