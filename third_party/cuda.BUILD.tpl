package(default_visibility = ["//visibility:public"])

licenses(["notice"])

# No include directories: nvcc knows where its own headers are.

cc_library(
    name = "cudart_static",
    linkopts = [
        "-L%{lib}",
        "-l:libcudart_static.a",
        "-ldl",
        "-lrt",
        "-lpthread",
    ],
)

cc_library(
    name = "cublas",
    linkopts = [
        "-L%{lib}",
        "-lcublas",
        "-lcublasLt",
    ],
)

cc_library(
    name = "cudnn",
    linkopts = [
        "-L%{lib}",
        "-lcudnn",
    ],
)
