// UnitProduct: products y = x B, or y += x B, by a matrix of a recurrent layer's weights, and the cells after them. B has one or
// several columns for each unit.
//
//   UnitProduct<D, C> product({.m = s.batch, .n = s.gates(), .k = s.units, .transpose_b = true}, s.units);
//   RETURN_IF_ERROR(product.Load(ctx, parameters, at, s.steps));  // B, or its transpose, begins at parameters + at.
//   RETURN_IF_ERROR(product.Run(ctx, x, kAddTo, y, cells));       // A step; with a null x there is no product.

#ifndef OPS_KERNEL_UNIT_PRODUCT_H_
#define OPS_KERNEL_UNIT_PRODUCT_H_

#include "ops/kernel/gemm.h"
#include "ops/kernel/rnn_cells.h"
#include BACKEND(unit_product.h)

#endif  // OPS_KERNEL_UNIT_PRODUCT_H_
