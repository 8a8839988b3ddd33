#include "tests/ops/one_by_one.h"

#include <cstdlib>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "engine/core/elementwise.h"
#include "engine/core/kernel_cache.h"
#include "engine/core/op_facts.h"
#include "ops/kernel/convert.h"

namespace gluond::testing {
namespace {

constexpr size_t kGuard = 64;
constexpr char kGuardByte = 0x5a;

// Two threads with the least grain, so that small tensors are split, too.
class TwoPieces final : public Threads {
 public:
  int count() const override { return 2; }
  void ParallelFor(int64_t n, int64_t, absl::FunctionRef<void(int64_t, int64_t)> body, int) override {
    if (n > 1) body(0, n / 2);
    body(n > 1 ? n / 2 : 0, n);
  }
};

// Memory on a device with guards behind it.
class Block {
 public:
  Block(DeviceDriver* driver, void* stream, size_t bytes) : driver_(driver), stream_(stream), bytes_(bytes) {
    data_ = *driver_->Allocate(bytes + kGuard);
    const std::vector<char> guard(kGuard, kGuardByte);
    ToDevice(static_cast<char*>(data_) + bytes, guard.data(), kGuard);
  }
  ~Block() { driver_->Free(data_, bytes_ + kGuard); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void* data() const { return data_; }
  void Write(const std::vector<char>& bytes) { ToDevice(data_, bytes.data(), bytes.size()); }
  std::vector<char> Read() const {
    std::vector<char> bytes(bytes_);
    ToHost(bytes.data(), data_, bytes_);
    return bytes;
  }
  bool GuardIsWhole() const {
    std::vector<char> guard(kGuard);
    ToHost(guard.data(), static_cast<char*>(data_) + bytes_, kGuard);
    return guard == std::vector<char>(kGuard, kGuardByte);
  }

 private:
  void ToDevice(void* to, const void* from, size_t bytes) const {
    if (!driver_->CopyFromHost(to, from, bytes, stream_).ok() || !driver_->Synchronize(stream_).ok()) std::abort();
  }
  void ToHost(void* to, const void* from, size_t bytes) const {
    if (!driver_->CopyToHost(to, from, bytes, stream_).ok() || !driver_->Synchronize(stream_).ok()) std::abort();
  }

  DeviceDriver* driver_;
  void* stream_;
  size_t bytes_;
  void* data_;
};

class BlockScratch final : public Scratch {
 public:
  BlockScratch(DeviceDriver* driver, void* stream) : driver_(driver), stream_(stream) {}
  absl::StatusOr<void*> Get(size_t bytes) override {
    blocks_.push_back(std::make_unique<Block>(driver_, stream_, bytes));
    blocks_.back()->Write(std::vector<char>(bytes, '\xff'));
    return blocks_.back()->data();
  }
  bool GuardsAreWhole() const {
    for (const auto& block : blocks_)
      if (!block->GuardIsWhole()) return false;
    return true;
  }

 private:
  DeviceDriver* driver_;
  void* stream_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

absl::Status Infer(const Node& node, const std::vector<HostTensor>& inputs, ShapeVector* shapes, TypeVector* types) {
  ShapeVector in_shapes;
  TypeVector in_types;
  for (const HostTensor& x : inputs) {
    in_shapes.push_back(x.shape);
    in_types.push_back(x.dtype);
  }
  shapes->resize(node.num_outputs());
  types->assign(node.num_outputs(), DType::kUnknown);
  absl::StatusOr<bool> known = InferShape(node.attrs, &in_shapes, shapes);
  if (!known.ok()) return Annotate(known.status(), "FInferShape");
  if (!*known || !AllKnown(*shapes)) return absl::InternalError("FInferShape leaves a shape unknown");
  known = InferType(node.attrs, &in_types, types);
  if (!known.ok()) return Annotate(known.status(), "FInferType");
  if (!*known || !AllKnown(*types)) return absl::InternalError("FInferType leaves a type unknown");
  return absl::OkStatus();
}

}  // namespace

HostTensor HostTensor::Of(const Numbers& numbers, DType dtype) {
  HostTensor t{numbers.shape, dtype, std::vector<char>(static_cast<size_t>(numbers.shape.Size() * SizeOf(dtype)))};
  for (size_t i = 0; i < numbers.values.size(); ++i) StoreAs(dtype, t.bytes.data(), i, numbers.values[i], false);
  return t;
}

std::vector<double> HostTensor::values() const {
  std::vector<double> v;
  for (int64_t i = 0; i < shape.Size(); ++i) v.push_back(LoadAs<double>(dtype, bytes.data(), i));
  return v;
}

Device TestDevice() {
  const char* name = std::getenv("GLUOND_TEST_DEVICE");
  return name == nullptr ? Device() : *Device::Parse(name);
}

absl::StatusOr<std::vector<HostTensor>> OneByOne::Call(const Node& node, std::vector<HostTensor>* inputs,
                                                       const CallOptions& options) {
  const Device device = device_;
  ASSIGN_OR_RETURN(DeviceDriver* const driver, FindDriver(device));
  ASSIGN_OR_RETURN(void* const stream, driver->CreateStream());
  // The stream is destroyed last, as blocks and scratch space are read and freed on it.
  const absl::Cleanup destroy = [driver, stream] { driver->DestroyStream(stream); };
  ShapeVector shapes;
  TypeVector types;
  RETURN_IF_ERROR(Infer(node, *inputs, &shapes, &types));

  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<TBlob> in, out;
  const auto add = [&](std::vector<TBlob>* list, const HostTensor& t) {
    blocks.push_back(std::make_unique<Block>(driver, stream, t.bytes.size()));
    blocks.back()->Write(t.bytes);
    list->push_back({blocks.back()->data(), t.shape, t.dtype, device});
  };
  for (const HostTensor& x : *inputs) add(&in, x);
  std::vector<HostTensor> results;
  std::vector<OpReqType> req;
  std::vector<size_t> block_of;
  for (size_t i = 0; i < shapes.size(); ++i) {
    HostTensor y{shapes[i], types[i], {}};
    const bool inplace = options.inplace_output == static_cast<int>(i);
    if (inplace) {
      block_of.push_back(options.inplace_input);
      out.push_back({in[options.inplace_input].data, y.shape, y.dtype, device});
    } else {
      if (options.req == kNullOp || options.req == kAddTo) {
        y = HostTensor::Of({y.shape, std::vector<double>(y.shape.Size(), options.fill)}, y.dtype);
      } else {
        // NaN in every floating-point type. A bool must be 0 or 1.
        y.bytes.assign(y.shape.Size() * SizeOf(y.dtype), y.dtype == DType::kBool ? '\1' : '\xff');
      }
      block_of.push_back(blocks.size());
      add(&out, y);
    }
    const bool wanted = options.hidden || i < node.facts().num_visible;
    req.push_back(!wanted ? kNullOp : options.req == kWriteInplace && !inplace ? kWriteTo : options.req);
    results.push_back(std::move(y));
  }

  TwoPieces threads;
  BlockScratch scratch(driver, stream);
  OpContext ctx;
  ctx.is_train = is_train_;
  ctx.device = device;
  ctx.stream = stream;
  ctx.threads = device.type == DeviceType::kCpu ? &threads : nullptr;
  // All cases share one cache: each meets there what others have left.
  static KernelCache& kernels = *new KernelCache(256);
  ctx.scratch = &scratch;
  ctx.kernels = &kernels;
  ctx.random = {7, 1, 0};
  if (node.facts().kernel(device.type) == nullptr) return absl::UnimplementedError("no kernel");
  RETURN_IF_ERROR(RunKernel(node.attrs, ctx, in, req, out));
  RETURN_IF_ERROR(driver->Synchronize(stream));

  for (const auto& block : blocks) {
    if (!block->GuardIsWhole()) return absl::InternalError("the kernel wrote behind a tensor");
  }
  if (!scratch.GuardsAreWhole()) return absl::InternalError("the kernel wrote behind its scratch space");
  for (size_t i = 0; i < results.size(); ++i) results[i].bytes = blocks[block_of[i]]->Read();
  for (size_t i = 0; i < inputs->size(); ++i) {
    std::vector<char> now = blocks[i]->Read();
    if (!node.facts().Mutates(static_cast<uint32_t>(i)) && static_cast<int>(i) != options.inplace_input &&
        now != (*inputs)[i].bytes) {
      return absl::InternalError(absl::StrCat("the kernel changed input ", i));
    }
    (*inputs)[i].bytes = std::move(now);
  }
  return results;
}

absl::StatusOr<std::vector<HostTensor>> OneByOne::Evaluate(const std::vector<NodeEntry>& outputs,
                                                           const std::map<std::string, HostTensor>& variables) {
  const IndexedGraph graph(Graph{outputs});
  std::vector<HostTensor> entries(graph.num_entries());
  for (const IndexedGraph::IndexedNode& indexed : graph.nodes()) {
    const Node& node = *indexed.node;
    if (node.is_variable()) {
      const auto it = variables.find(node.name());
      if (it == variables.end()) return absl::NotFoundError(absl::StrCat("no variable '", node.name(), "'"));
      entries[indexed.first_entry] = it->second;
      continue;
    }
    std::vector<HostTensor> inputs;
    for (const IndexedGraph::Input& input : indexed.inputs) inputs.push_back(entries[input.entry]);
    absl::StatusOr<std::vector<HostTensor>> results = Call(node, &inputs);
    if (!results.ok()) return Annotate(results.status(), absl::StrCat(node.op()->name(), " '", node.name(), "'"));
    std::move(results->begin(), results->end(), entries.begin() + indexed.first_entry);
  }
  std::vector<HostTensor> values;
  for (const IndexedGraph::Input& output : graph.outputs()) values.push_back(entries[output.entry]);
  return values;
}

}  // namespace gluond::testing
