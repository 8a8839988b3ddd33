// OpCall: one operator's CPU kernel with memory of its own, called over and over, as a lane calls it.
//
//   OpCall call("Pooling", {{"kernel", "(2, 2)"}}, {{64, 20, 24, 24}});
//   call.Run();
//
// An error ends the program.

#ifndef TESTS_BENCH_OP_CALL_H_
#define TESTS_BENCH_OP_CALL_H_

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/elementwise.h"
#include "engine/core/kernel_cache.h"
#include "engine/core/op.h"
#include "engine/runtime/team.h"

namespace gluond::bench {

inline void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// One block, as a lane's scratch is after the first run.
class OneBlock final : public Scratch {
 public:
  absl::StatusOr<void*> Get(size_t bytes) override {
    const size_t begin = used_;
    used_ += (bytes + 63) / 64 * 64;
    if (used_ > kBytes) return absl::ResourceExhaustedError("scratch");
    return block_.get() + begin;
  }
  void Reset() { used_ = 0; }

 private:
  static constexpr size_t kBytes = size_t{256} << 20;
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> block_{static_cast<char*>(std::aligned_alloc(64, kBytes))};
  size_t used_ = 0;
};

class OpCall {
 public:
  // `shapes`: the inputs' shapes; missing ones are inferred. All types are float32, but for positions of maxima.
  OpCall(const std::string& op, const AttrDict& attrs, ShapeVector shapes) {
    std::vector<NodeEntry> xs;
    const Op* const found = Op::Find(op);
    if (found == nullptr) Check(absl::NotFoundError(op));
    NodeAttrs parsed;
    parsed.dict = attrs;
    Check(found->ParseAttrs(&parsed));
    shapes.resize(found->num_inputs(parsed));
    for (size_t i = 0; i < shapes.size(); ++i) xs.push_back(MakeVariable(absl::StrCat("x", i)));
    node_ = *TryMakeNode(op, "y", xs, attrs);
    ShapeVector out_shapes(node_->num_outputs());
    TypeVector in_types(shapes.size(), DType::kFloat32), out_types(out_shapes.size(), DType::kUnknown);
    if (op == "_backward_Pooling" && shapes.size() > 2) in_types[2] = DType::kInt32;
    const NodeAttrs& a = node_->attrs;
    Check(node_->op()->GetAttr<FInferShape>("FInferShape", FInferShape(SameShape))(a, &shapes, &out_shapes).status());
    Check(node_->op()->GetAttr<FInferType>("FInferType", FInferType(SameType))(a, &in_types, &out_types).status());
    for (size_t i = 0; i < shapes.size(); ++i) Add(&in_, shapes[i], in_types[i]);
    for (size_t i = 0; i < out_shapes.size(); ++i) Add(&out_, out_shapes[i], out_types[i]);
    req_.assign(out_.size(), kWriteTo);
    ctx_.is_train = true;
    ctx_.threads = &SharedTeam();
    ctx_.scratch = &scratch_;
    ctx_.kernels = &kernels_;
    compute_ = node_->op()->GetAttr<FCompute>("FCompute<cpu>");
  }

  std::vector<TBlob>& in() { return in_; }
  const std::vector<TBlob>& out() const { return out_; }
  void Skip(size_t output) { req_[output] = kNullOp; }

  void Run() {
    scratch_.Reset();
    Check((*compute_)(node_->attrs, ctx_, in_, req_, out_));
  }

 private:
  void Add(std::vector<TBlob>* list, const Shape& shape, DType type) {
    memory_.push_back(std::make_unique<float[]>(shape.Size()));
    if (type == DType::kFloat32) {
      for (int64_t i = 0; i < shape.Size(); ++i) memory_.back()[i] = static_cast<float>(i % 17) / 16;
    }
    list->push_back({memory_.back().get(), shape, type, Device()});
  }

  // One team for all calls, as a server's lanes share one. It has as many threads as the peers get from libgomp.
  static Team& SharedTeam() {
    const char* const count = std::getenv("OMP_NUM_THREADS");
    static Team& team = *new Team(count == nullptr ? 0 : std::atoi(count));
    return team;
  }

  OneBlock scratch_;
  KernelCache kernels_{64};
  OpContext ctx_;
  NodePtr node_;
  std::vector<std::unique_ptr<float[]>> memory_;
  std::vector<TBlob> in_, out_;
  std::vector<OpReqType> req_;
  const FCompute* compute_ = nullptr;
};

}  // namespace gluond::bench

#endif  // TESTS_BENCH_OP_CALL_H_
