// Elements whose type is known only when the program runs, as kernels read and write them.
//
// Kernels compute in float (float32, float16, bfloat16), double (float64) or int64_t (integers and bool), and load
// and store the other types. So a functor is compiled for three types, not for nine.

#ifndef OPS_KERNEL_CONVERT_H_
#define OPS_KERNEL_CONVERT_H_

#include <cstdint>

#include "engine/core/convert.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/tensor.h"
#include "ops/kernel/backend.h"
#include BACKEND(convert.h)

namespace gluond::ops {

// A tensor that is read as elements of type C, whatever it holds.
template <class C>
struct In {
  const void* data;
  DType dtype;

  In() = default;
  explicit In(const TBlob& x) : data(x.data), dtype(x.dtype) {}
  HOST_DEVICE C operator[](int64_t i) const {
    if (dtype == DTypeOf<C>) return static_cast<const C*>(data)[i];
#ifdef GLUOND_GPU_CODE
    return LoadOther<C>(dtype, data, i);
#else
    return LoadAs<C>(dtype, data, i);
#endif
  }
};

// A tensor that elements of type C are written to, as its OpReqType says. Not for kNullOp.
template <class C>
struct Out {
  void* data;
  DType dtype;
  bool add;

  Out() = default;
  Out(const TBlob& y, OpReqType req) : data(y.data), dtype(y.dtype), add(req == kAddTo) {}
  HOST_DEVICE void Set(int64_t i, C v) const {
    if (dtype == DTypeOf<C> && !add) {
      static_cast<C*>(data)[i] = v;
      return;
    }
#ifdef GLUOND_GPU_CODE
    StoreOther<C>(dtype, data, i, v, add);
#else
    StoreAs<C>(dtype, data, i, v, add);
#endif
  }
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CONVERT_H_
