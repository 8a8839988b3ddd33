#include "tests/engine/runtime/test_ops.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/core/param.h"

namespace gluond {

std::function<absl::Status()> KernelHook;
std::function<absl::Status(const TBlob&, const TBlob&, const Completion&)> AsyncHook;

namespace {

using Blobs = absl::Span<const TBlob>;
using Reqs = absl::Span<const OpReqType>;

// out[i] = f(i), as `req` says.
template <class F>
void Write(const TBlob& out, OpReqType req, F f) {
  if (req == kNullOp) return;
  float* const y = out.dptr<float>();
  for (int64_t i = 0; i < out.Size(); ++i) y[i] = req == kAddTo ? y[i] + f(i) : f(i);
}

struct ScaleParam : Param<ScaleParam> {
  double by;
  static void Fields(Schema<ScaleParam>& s) { s.Field("by", &ScaleParam::by).Default(1.0).Describe("Factor."); }
};

struct ScratchParam : Param<ScratchParam> {
  int64_t bytes;
  static void Fields(Schema<ScratchParam>& s) {
    s.Field("bytes", &ScratchParam::bytes).Default(int64_t{64}).Describe("At least the tensor's.");
  }
};

struct Add {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext&, Blobs in, Reqs req, Blobs out) {
    const float *a = in[0].dptr<float>(), *b = in[1].dptr<float>();
    Write(out[0], req[0], [=](int64_t i) { return a[i] + b[i]; });
    return absl::OkStatus();
  }
};

struct Scale {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext&, Blobs in, Reqs req, Blobs out) {
    const float* x = in[0].dptr<float>();
    const float by = static_cast<float>(attrs.param<ScaleParam>().by);
    Write(out[0], req[0], [=](int64_t i) { return x[i] * by; });
    return absl::OkStatus();
  }
};

// Writes backwards of what it reads, so that running in place by mistake gives wrong numbers.
struct Square {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext&, Blobs in, Reqs req, Blobs out) {
    const float* x = in[0].dptr<float>();
    if (req[0] != kNullOp && req[0] != kAddTo) std::memset(out[0].data, 0, out[0].bytes());
    Write(out[0], req[0], [=](int64_t i) { return x[i] * x[i]; });
    return absl::OkStatus();
  }
};

struct Split {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext&, Blobs in, Reqs req, Blobs out) {
    const float* x = in[0].dptr<float>();
    Write(out[0], req[0], [=](int64_t i) { return x[i] + 1; });
    Write(out[1], req[1], [=](int64_t i) { return x[i] - 1; });
    return absl::OkStatus();
  }
};

struct Copy {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext&, Blobs in, Reqs req, Blobs out) {
    const float* x = in[0].dptr<float>();
    Write(out[0], req[0], [=](int64_t i) { return x[i]; });
    return absl::OkStatus();
  }
};

struct Bump {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Reqs req, Blobs out) {
    for (int64_t i = 0; i < in[1].Size(); ++i) in[1].dptr<float>()[i] += 1;
    return Copy::Run<D>(attrs, ctx, in, req, out);
  }
};

struct Random {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs, Reqs req, Blobs out) {
    Write(out[0], req[0], [&](int64_t i) { return Philox::ToUniform(ctx.random.Word(i)); });
    return absl::OkStatus();
  }
};

struct ByScratch {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Reqs req, Blobs out) {
    const absl::StatusOr<void*> space = ctx.scratch->Get(attrs.param<ScratchParam>().bytes);
    if (!space.ok()) return space.status();
    std::memcpy(*space, in[0].data, in[0].bytes());
    const float* x = static_cast<const float*>(*space);
    Write(out[0], req[0], [=](int64_t i) { return x[i]; });
    return absl::OkStatus();
  }
};

struct Plant {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Reqs req, Blobs out) {
    const auto planted = std::make_unique<std::vector<float>>(in[0].Size());
    return planted->empty() ? absl::OkStatus() : Copy::Run<D>(attrs, ctx, in, req, out);
  }
};

struct CallHook {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Reqs req, Blobs out) {
    if (absl::Status status = KernelHook(); !status.ok()) return status;
    return Copy::Run<D>(attrs, ctx, in, req, out);
  }
};

struct Async {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Reqs, Blobs out) {
    return AsyncHook(in.back(), out[0], ctx.on_complete);
  }
};

// Facts that all of them share.
#define T_OP(name, inputs)                                            \
  GLUOND_REGISTER_OP_NAMED(name, #name)                               \
      .describe("See test_ops.h.")                                    \
      .set_num_inputs(inputs)                                         \
      .set_attr<FInferShape>("FInferShape", ElemwiseShape<inputs, 1>) \
      .set_attr<FInferType>("FInferType", ElemwiseType<inputs, 1>)

T_OP(t_add, 2).compute<Add>().set_attr<FInplaceOption>("FInplaceOption", InplaceEither);
T_OP(t_scale, 1).compute<Scale>().set_attr<FInplaceOption>("FInplaceOption", InplaceFirst).set_attr_parser(ParamParser<ScaleParam>);
T_OP(t_square, 1).compute<Square>();
T_OP(t_split, 1).compute<Split>().set_num_outputs(2);
T_OP(_copy, 1).compute<Copy>();
T_OP(t_same, 1)
    .compute<Copy>()
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FInplaceIdentity>("FInplaceIdentity", [](const NodeAttrs&) { return std::vector<bool>{true}; });
T_OP(t_bump, 2).compute<Bump>().set_attr<FMutateInputs>("FMutateInputs", [](const NodeAttrs&) { return std::vector<uint32_t>{1}; });
T_OP(t_random, 1).compute<Random>().set_attr<FResourceRequest>("FResourceRequest", [](const NodeAttrs&) {
  return std::vector<ResourceRequest>{ResourceRequest::kRandom};
});
T_OP(t_scratch, 1).compute<ByScratch>().set_attr_parser(ParamParser<ScratchParam>);
T_OP(t_plant, 1).compute<Plant>();
T_OP(t_call, 1).compute<CallHook>();
T_OP(t_async, 1).compute<Async>().set_attr<FExecType>("FExecType", [](const NodeAttrs&) { return ExecType::kAsync; });
T_OP(t_async_bump, 2)
    .compute<Async>()
    .set_attr<FExecType>("FExecType", [](const NodeAttrs&) { return ExecType::kAsync; })
    .set_attr<FMutateInputs>("FMutateInputs", [](const NodeAttrs&) { return std::vector<uint32_t>{1}; });

template <class T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

}  // namespace

Bench::Bench()
    : budget_(std::make_shared<Budget>("the test", int64_t{1} << 30, "--max_tensor_bytes")),
      allocator_(OrDie(DeviceAllocator::Create(Device(), budget_))),
      lane_(OrDie(Lane::Create(Device(), {.threads = 2}, *allocator_))) {}

Tensor Bench::Of(const std::vector<float>& values) {
  const Tensor tensor = OrDie(Tensor::Empty(*allocator_, Shape{static_cast<int64_t>(values.size())}, DType::kFloat32));
  std::memcpy(tensor.data(), values.data(), tensor.bytes());
  return tensor;
}

Tensor Bench::Filled(int64_t n, float value) { return Of(std::vector<float>(n, value)); }

std::unique_ptr<Executor> Bench::Compile(const std::vector<NodeEntry>& outputs, int64_t n, bool is_train) {
  return OrDie(Executor::Compile(Graph{outputs}, SignatureOf(outputs, n), {.is_train = is_train}, *lane_, *allocator_));
}

ExecutorKeyPtr Bench::KeyOf(const std::shared_ptr<const Graph>& graph, int64_t n, const ExecutorOptions& options) {
  const Tensor input = Filled(n, 0);
  return ExecutorKey::Make({graph, options, {&input, 1}}, SignatureOf(graph->outputs, n));
}

void Bench::Drain() {
  std::promise<void> drained;
  lane_->Post([&drained] { drained.set_value(); });
  drained.get_future().wait();
}

Run MakeRun(std::vector<Tensor> inputs, std::vector<Tensor> outputs, std::vector<OpReqType> reqs,
            std::shared_ptr<Cancellation> cancellation) {
  Run run;
  run.inputs = std::move(inputs);
  run.outputs = std::move(outputs);
  run.output_reqs = std::move(reqs);
  run.cancellation = std::move(cancellation);
  return run;
}

std::vector<float> Values(const Tensor& tensor) {
  return std::vector<float>(tensor.data<float>(), tensor.data<float>() + tensor.Size());
}

Signatures SignatureOf(const std::vector<NodeEntry>& outputs, int64_t n) {
  Signatures signatures;
  PostOrderVisit(outputs, [&](const NodePtr& node) {
    if (node->is_variable()) signatures[node->name()] = {Shape{n}, DType::kFloat32};
  });
  return signatures;
}

}  // namespace gluond
