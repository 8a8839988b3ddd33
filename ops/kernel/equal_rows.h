// Whether products and convolutions round equal rows alike, wherever these are among the others.

#ifndef OPS_KERNEL_EQUAL_ROWS_H_
#define OPS_KERNEL_EQUAL_ROWS_H_

namespace gluond::ops {

// Whether equal rows of a float32 product of one size, and equal images of a convolution, have results of equal bits on this
// processor. oneDNN's code for AVX-512 has that property. oneDNN's code for AVX2 works in blocks of six rows, and sums the one to
// three rows that are left over in another order. OpenBLAS does alike in float64 on any processor.
// tests/ops/kernel/equal_rows_test.cc holds it.
bool HasEqualRows();

}  // namespace gluond::ops

#endif  // OPS_KERNEL_EQUAL_ROWS_H_
