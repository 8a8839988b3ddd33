"""Compiler options of the rooms. Warnings and the language standard stand in .bazelrc."""

# For the rooms that do not compute: nothing beyond .bazelrc.
COPTS = []

# For ops/. x86-64-v3 is AVX2 and FMA (every server CPU since 2013). Vector loops need to know that
# nobody reads errno or floating-point exceptions; NaN, infinities and signed zeros keep their meaning.
# OpenMP stands for its vector loops; its threads compute nothing.
KERNEL_COPTS = [
    "-march=x86-64-v3",
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
]
