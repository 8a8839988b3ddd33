// What the kernels that compute through oneDNN share. oneDNN throws; nothing that it throws leaves CallOneDnn.

#ifndef OPS_KERNEL_ONEDNN_H_
#define OPS_KERNEL_ONEDNN_H_

#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/op_context.h"
#include "engine/core/status_macros.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace gluond::ops {

inline const dnnl::engine& CpuEngine() {
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Runs primitives before execute() returns.
inline dnnl::stream& CpuStream() {
  thread_local dnnl::stream stream(CpuEngine());
  return stream;
}

// body() -> absl::Status, with oneDNN's exceptions as INTERNAL, and RESOURCE_EXHAUSTED where it has no memory.
template <class Body>
absl::Status CallOneDnn(absl::string_view what, Body body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    const std::string message = absl::StrCat(what, ": oneDNN: ", error.what());
    if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(message);
    return absl::InternalError(message);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": the host has no memory left"));
  }
}

// Primitives take their temporary memory from the lane, not from malloc.
inline dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// Points `memory` to temporary space of its size.
inline absl::Status BindScratch(const OpContext& ctx, dnnl::memory& memory) {
  const size_t bytes = memory.get_desc().get_size();
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(bytes));
  memory.set_data_handle(space);
  return absl::OkStatus();
}

// oneDNN's memory objects want a mutable pointer to what they only read, too.
inline void Bind(dnnl::memory& memory, const void* data) { memory.set_data_handle(const_cast<void*>(data)); }

inline dnnl::memory Unbound(const dnnl::memory::desc& desc) { return {desc, CpuEngine(), nullptr}; }

}  // namespace gluond::ops

#endif  // OPS_KERNEL_ONEDNN_H_
