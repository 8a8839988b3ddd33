// Blocks: networks and their parts, as in Python's Gluon.
//
//   struct Net : gluon::HybridBlock<Net> {
//     nn::Dense hidden = Register("hidden", nn::Dense({.units = 128, .activation = "relu"}));
//     nn::Dense output = Register("output", nn::Dense({.units = 10}));
//
//     template <class X>  // NDArray, or Symbol where the block is traced.
//     X Forward(const X& x) {
//       return output(hidden(x));
//     }
//   };
//
//   Net net;
//   net.Initialize(Named("Xavier"));
//   net.Hybridize();           // From now on a call is one graph on the server.
//   NDArray y = net(x);
//
// Forward takes and gives arrays, and vectors, pairs and tuples of these. A copy of a block is the same block.

#ifndef GLUOND_BLOCK_H_
#define GLUOND_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gluond/export.h"
#include "gluond/model.h"
#include "gluond/ndarray.h"
#include "gluond/parameter.h"
#include "gluond/place.h"
#include "gluond/symbol.h"
#include "gluond/types.h"

namespace gluond::client {

struct BlockState;

namespace internal {

// Arrays in vectors, pairs and tuples, as a list and the sizes of the vectors.
using Sizes = std::vector<size_t>;

template <class T>
struct Nest;

template <>
struct Nest<NDArray> {
  using Symbols = Symbol;
  static void Flatten(const NDArray& value, std::vector<NDArray>* flat, Sizes*) { flat->push_back(value); }
  static NDArray Build(const std::vector<NDArray>& flat, size_t* at, const Sizes&, size_t*) { return flat[(*at)++]; }
};

template <>
struct Nest<Symbol> {
  using Symbols = Symbol;
  static void Flatten(const Symbol& value, std::vector<Symbol>* flat, Sizes*) { flat->push_back(value); }
  static Symbol Build(const std::vector<Symbol>& flat, size_t* at, const Sizes&, size_t*) { return flat[(*at)++]; }
};

template <class T>
struct Nest<std::vector<T>> {
  using Symbols = std::vector<typename Nest<T>::Symbols>;
  template <class X>
  static void Flatten(const std::vector<T>& value, std::vector<X>* flat, Sizes* sizes) {
    sizes->push_back(value.size());
    for (const T& each : value) Nest<T>::Flatten(each, flat, sizes);
  }
  template <class X>
  static std::vector<T> Build(const std::vector<X>& flat, size_t* at, const Sizes& sizes, size_t* size) {
    std::vector<T> value;
    for (size_t count = sizes[(*size)++]; count > 0; --count) value.push_back(Nest<T>::Build(flat, at, sizes, size));
    return value;
  }
};

template <class... Ts>
struct Nest<std::tuple<Ts...>> {
  using Symbols = std::tuple<typename Nest<Ts>::Symbols...>;
  template <class X>
  static void Flatten(const std::tuple<Ts...>& value, std::vector<X>* flat, Sizes* sizes) {
    std::apply([&](const Ts&... each) { (Nest<Ts>::Flatten(each, flat, sizes), ...); }, value);
  }
  template <class X>
  static std::tuple<Ts...> Build(const std::vector<X>& flat, size_t* at, const Sizes& sizes, size_t* size) {
    return std::tuple<Ts...>{Nest<Ts>::Build(flat, at, sizes, size)...};  // In order, as braces have it.
  }
};

template <class A, class B>
struct Nest<std::pair<A, B>> {
  using Symbols = std::pair<typename Nest<A>::Symbols, typename Nest<B>::Symbols>;
  template <class X>
  static void Flatten(const std::pair<A, B>& value, std::vector<X>* flat, Sizes* sizes) {
    Nest<A>::Flatten(value.first, flat, sizes);
    Nest<B>::Flatten(value.second, flat, sizes);
  }
  template <class X>
  static std::pair<A, B> Build(const std::vector<X>& flat, size_t* at, const Sizes& sizes, size_t* size) {
    return std::pair<A, B>{Nest<A>::Build(flat, at, sizes, size), Nest<B>::Build(flat, at, sizes, size)};
  }
};

// Makes the outputs of Forward of these inputs, and tells the sizes of their vectors.
using TraceForward = std::function<std::vector<Symbol>(const std::vector<Symbol>& inputs, Sizes* sizes)>;

}  // namespace internal

namespace gluon {

struct SaveAsModelOptions {
  // The model's inputs, in the order of Forward's, with -1 for sizes that vary. Default: as in the last run, with any number of rows.
  std::vector<Variable> inputs = {};
  bool replace = false;  // A model of that name, with its trainer.
  uint64_t seed = 0;     // The model's random numbers begin with it.
  std::string device = "";
};

// The parts of all blocks that do not depend on what they compute.
class GLUOND_EXPORT BlockBase {
 public:
  // The block's own parameters.
  ParameterDict params() const;
  // These, and those of the blocks within, by their paths: `hidden.weight`. An error of a block is that of its parameters' values.
  ParameterDict CollectParams() const;
  // Gives values to the parameters. initializer: for those that have none of their own; default: Uniform.
  void Initialize(const Component& initializer = {}, const InitializeOptions& options = {}, Place place = Place::Here()) const;
  void ZeroGrad(Place place = Place::Here()) const;
  void Cast(DType dtype, Place place = Place::Here()) const;
  // Saves the network as a model of the server, which every client can then ask, train and publish. Nothing is downloaded, and
  // neither changes the other afterwards. FAILED_PRECONDITION: it has not run since Hybridize(). Others: as Client::DefineModel.
  absl::StatusOr<Model> SaveAsModel(const std::string& name, const SaveAsModelOptions& options = {},
                                    Place place = Place::Here()) const;
  // Whether calls run as one graph on the server. Blocks within are told the same.
  void Hybridize(bool active = true) const;

  // Files of Python's save_parameters and load_parameters. DATA_LOSS, INVALID_ARGUMENT: the file is none, or does not fit.
  absl::Status SaveParameters(const std::string& path, Place place = Place::Here()) const;
  absl::Status LoadParameters(const std::string& path, Place place = Place::Here()) const;

  // The block as the server knows it. INVALID_ARGUMENT: its Forward, or that of a block within, is this program's.
  absl::StatusOr<BlockTree> Tree() const;

  // For the library itself.
  const std::shared_ptr<BlockState>& state() const { return state_; }

 protected:
  BlockBase();

  // Names a block within: its parameters are `name.weight`, say. Gives the block back.
  template <class B>
  B Register(const std::string& name, B block) {
    AddChild(name, block);
    return block;
  }
  void AddChild(const std::string& name, const BlockBase& child) const;

  bool RunsAsGraph() const;
  bool HasDeferred() const;
  std::vector<NDArray> RunGraph(const std::vector<NDArray>& inputs, const internal::Sizes& in, const internal::TraceForward& trace,
                                internal::Sizes* out, Place place) const;
  // Gives the block's own parameters the shapes that follow from the inputs.
  void Resolve(const std::vector<NDArray>& inputs, const internal::TraceForward& trace, Place place) const;

 private:
  std::shared_ptr<BlockState> state_;
};

// A block of NDArrays alone: Forward(const NDArray&...) may look at values.
template <class Derived>
class Block : public BlockBase {
 public:
  template <class... Inputs>
  auto operator()(const Inputs&... inputs) const {
    return const_cast<Derived&>(static_cast<const Derived&>(*this)).Forward(inputs...);
  }
};

template <class Derived>
class HybridBlock : public BlockBase {
 public:
  template <class... Inputs>
  auto operator()(const Inputs&... inputs) const {
    Derived& self = const_cast<Derived&>(static_cast<const Derived&>(*this));
    using Ins = internal::Nest<std::tuple<Inputs...>>;
    if constexpr (std::is_same_v<std::tuple<Inputs...>, typename Ins::Symbols>) {
      return self.Forward(inputs...);
    } else {
      using Result = decltype(self.Forward(inputs...));
      const bool as_graph = RunsAsGraph();
      if (!as_graph && !HasDeferred()) return self.Forward(inputs...);
      std::vector<NDArray> flat;
      internal::Sizes in, out;
      Ins::Flatten(std::tuple<Inputs...>(inputs...), &flat, &in);
      const internal::TraceForward trace = [&self, &in](const std::vector<Symbol>& variables, internal::Sizes* sizes) {
        using Symbols = typename Ins::Symbols;
        size_t at = 0, size = 0;
        auto result = std::apply([&self](const auto&... symbols) { return self.Forward(symbols...); },
                                 internal::Nest<Symbols>::Build(variables, &at, in, &size));
        std::vector<Symbol> outputs;
        internal::Nest<decltype(result)>::Flatten(result, &outputs, sizes);
        return outputs;
      };
      if (!as_graph) {
        Resolve(flat, trace, Place{});
        return self.Forward(inputs...);
      }
      const std::vector<NDArray> outputs = RunGraph(flat, in, trace, &out, Place{});
      size_t at = 0, size = 0;
      return internal::Nest<Result>::Build(outputs, &at, out, &size);
    }
  }
};

// Any block of one input and one output, for containers.
class GLUOND_EXPORT AnyBlock {
 public:
  template <class B, class = std::enable_if_t<std::is_base_of_v<BlockBase, B>>>
  AnyBlock(B block) : base_(block), callable_(std::make_shared<Holder<B>>(std::move(block))) {}  // NOLINT

  NDArray operator()(const NDArray& x) const { return callable_->Call(x); }
  Symbol operator()(const Symbol& x) const { return callable_->Call(x); }
  const BlockBase& base() const { return base_; }

 private:
  struct Callable {
    virtual ~Callable() = default;
    virtual NDArray Call(const NDArray& x) const = 0;
    virtual Symbol Call(const Symbol& x) const = 0;
  };
  template <class B>
  struct Holder : Callable {
    explicit Holder(B block) : block(std::move(block)) {}
    NDArray Call(const NDArray& x) const override { return block(x); }
    Symbol Call(const Symbol& x) const override { return block(x); }
    B block;
  };

  BlockBase base_;
  std::shared_ptr<const Callable> callable_;
};

}  // namespace gluon

namespace nn {

// Blocks one after the other.
class GLUOND_EXPORT Sequential : public gluon::HybridBlock<Sequential> {
 public:
  Sequential();
  Sequential(std::initializer_list<gluon::AnyBlock> blocks);
  void Add(const gluon::AnyBlock& block);
  size_t size() const { return blocks_->size(); }
  const gluon::AnyBlock& operator[](size_t index) const { return (*blocks_)[index]; }

  template <class X>
  X Forward(const X& x) const {
    X y = x;
    for (const gluon::AnyBlock& block : *blocks_) y = block(y);
    return y;
  }

  using gluon::HybridBlock<Sequential>::operator();

 private:
  std::shared_ptr<std::vector<gluon::AnyBlock>> blocks_;
};

using HybridSequential = Sequential;

}  // namespace nn
}  // namespace gluond::client

#endif  // GLUOND_BLOCK_H_
