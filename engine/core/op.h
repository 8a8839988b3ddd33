// Op: the registry of operators, in NNVM's vocabulary. An operator is a name with typed attributes; a pass asks for
// the attributes that it needs, and anybody can add attributes, in as many pieces and files as wanted:
//
//   GLUOND_REGISTER_OP(abs)
//       .describe("y = |x|, elementwise.")
//       .add_argument("data", "NDArray", "Any shape.")
//       .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
//       .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)
//       .set_attr<FGradient>("FGradient", ElemwiseGradUseIn{"_backward_abs"})
//       .compute<Unary<Abs>>();
//
// Registration happens before main (or while a plugin loads). A key that was not declared, a value of another type
// than declared, and the same key set twice are collected, and CheckRegistry reports each with both places.
//
// When nvcc compiles the same file for the GPU plugin, the chain records FCompute<gpu> (compute<K>(), or set_attr of
// a "...<gpu>" key) with the operator that the server has. The chain's other calls do nothing there.

#ifndef ENGINE_CORE_OP_H_
#define ENGINE_CORE_OP_H_

#include <any>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/param.h"
#include "engine/core/status_macros.h"

namespace gluond {

inline constexpr uint32_t kVarg = static_cast<uint32_t>(-1);  // Any number of inputs.

using FAttrParser = std::function<absl::Status(NodeAttrs*)>;
using FCount = std::function<uint32_t(const NodeAttrs&)>;

class Op {
 public:
  // The operator registered as `name` or under that alias, or nullptr. Lives until exit.
  static const Op* Find(absl::string_view name);
  // NOT_FOUND names the closest operators.
  static absl::StatusOr<const Op*> Get(absl::string_view name);
  // Sorted, without aliases.
  static std::vector<std::string> ListNames();

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const std::vector<std::string>& aliases() const { return aliases_; }
  // Tensors first, then parameters.
  const std::vector<ArgumentDoc>& arguments() const { return arguments_; }

  uint32_t num_inputs(const NodeAttrs& attrs) const;  // kVarg: any number.
  uint32_t num_outputs(const NodeAttrs& attrs) const;
  uint32_t num_visible_outputs(const NodeAttrs& attrs) const;
  std::vector<std::string> input_names(const NodeAttrs& attrs, uint32_t num_inputs) const;
  std::vector<std::string> output_names(const NodeAttrs& attrs) const;
  // Parses attrs->dict into attrs->parsed, and finds attrs->facts. INVALID_ARGUMENT: starts with "operator 'name'".
  absl::Status ParseAttrs(NodeAttrs* attrs) const;
  // The same for a call with so many inputs, which a variadic operator reads as its attribute.
  absl::Status ParseAttrs(NodeAttrs* attrs, size_t num_inputs) const;

  // The attribute `key`, or nullptr. Requires: T is the type the key was declared with. An OpMap is for those who
  // ask for each node of a graph.
  template <class T>
  const T* GetAttr(absl::string_view key) const {
    const Attr* const attr = Find(attrs_, key);
    return attr == nullptr ? nullptr : std::any_cast<T>(&attr->value);
  }
  template <class T>
  T GetAttr(absl::string_view key, T otherwise) const {
    const T* value = GetAttr<T>(key);
    return value == nullptr ? otherwise : *value;
  }
  bool HasAttr(absl::string_view key) const { return Find(attrs_, key) != nullptr; }
  // nullptr: there is none for such devices.
  const FCompute* kernel(DeviceType device) const;
  // The facts of the operator's first call if these are equal, as those of nearly all calls are; otherwise a copy.
  std::shared_ptr<const OpFacts> Share(OpFacts facts) const;

 private:
  friend class OpRegistration;
  template <class T>
  friend class OpMap;
  friend absl::Status CheckRegistry();
  struct Attr {
    std::string key;
    std::any value;
    std::string place;
  };
  // By IndexOf(key); null, or beyond the end: the operator has no such attribute.
  using Attrs = std::vector<std::unique_ptr<Attr>>;
  static const Attr* Find(const Attrs& attrs, absl::string_view key);
  // The key's number, which it has from the first question on. Any thread.
  static size_t IndexOf(absl::string_view key);

  std::string name_;
  std::string description_;
  std::vector<std::string> aliases_;
  std::vector<ArgumentDoc> arguments_;
  std::variant<uint32_t, FCount> num_inputs_ = uint32_t{1};
  std::variant<uint32_t, FCount> num_outputs_ = uint32_t{1};
  FAttrParser attr_parser_;
  Attrs attrs_;
  mutable std::once_flag first_facts_known_;
  mutable std::shared_ptr<const OpFacts> first_facts_;
};

// OpMap is an attribute of all operators, as in NNVM: the key is looked up once, and each operator's attribute is then read by
// its place.
//
//   static const OpMap<FAffine> affine_of("FAffine");
//   if (const FAffine* affine = affine_of[node.op()]) ...
template <class T>
class OpMap {
 public:
  explicit OpMap(absl::string_view key) : index_(Op::IndexOf(key)) {}

  // As Op::GetAttr.
  const T* operator[](const Op* op) const {
    const Op::Attrs& attrs = op->attrs_;
    return index_ < attrs.size() && attrs[index_] != nullptr ? std::any_cast<T>(&attrs[index_]->value) : nullptr;
  }
  T Get(const Op* op, T otherwise) const {
    const T* const value = (*this)[op];
    return value == nullptr ? std::move(otherwise) : *value;
  }

 private:
  const size_t index_;
};

// OK, or INTERNAL with every mistake made at registration. To be called first thing in main and in tests.
absl::Status CheckRegistry();

// Makes `key` known as an attribute of type T.
#define GLUOND_DECLARE_OP_ATTR(T, key)                                              \
  [[maybe_unused]] static const bool GLUOND_CONCAT_(gluond_op_attr_, __COUNTER__) = \
      ::gluond::OpRegistration::DeclareAttr(key, typeid(T), __FILE__, __LINE__)

// One piece of an operator's registration; a value so that registration chains need no macro of their own.
class OpRegistration {
 public:
  OpRegistration(const char* name, const char* file, int line);

#ifdef GLUOND_GPU
  // In the plugin: only the GPU's kernels count.
  template <class... A>
  OpRegistration& describe(const A&...) {
    return *this;
  }
  template <class... A>
  OpRegistration& add_alias(const A&...) {
    return *this;
  }
  template <class... A>
  OpRegistration& add_argument(const A&...) {
    return *this;
  }
  template <class... A>
  OpRegistration& add_arguments(const A&...) {
    return *this;
  }
  template <class... A>
  OpRegistration& set_num_inputs(const A&...) {
    return *this;
  }
  template <class... A>
  OpRegistration& set_num_outputs(const A&...) {
    return *this;
  }
  template <class... A>
  OpRegistration& set_attr_parser(const A&...) {
    return *this;
  }
  template <class P, class... A>
  OpRegistration& params(const A&...) {
    return *this;
  }
  OpRegistration& infer(const FInferShape&, const FInferType&) { return *this; }
  template <class... A>
  OpRegistration& with(const A&...) {
    return *this;
  }
  template <class T>
  OpRegistration& set_attr(absl::string_view key, T value) {
    if (key == "FCompute<gpu>") Set(key, std::any(std::move(value)));
    return *this;
  }
  template <class K>
  OpRegistration& compute() {
    return set_attr<FCompute>("FCompute<gpu>", &K::template Run<gpu>);
  }
#else
  OpRegistration& describe(std::string text);
  OpRegistration& add_alias(const char* alias);
  // `type` is "NDArray" or "NDArray[]" for a tensor.
  OpRegistration& add_argument(std::string name, std::string type, std::string text);
  OpRegistration& add_arguments(std::vector<ArgumentDoc> docs);
  OpRegistration& set_num_inputs(uint32_t n);  // kVarg: any number.
  OpRegistration& set_num_inputs(FCount count);
  OpRegistration& set_num_outputs(uint32_t n);
  OpRegistration& set_num_outputs(FCount count);
  OpRegistration& set_attr_parser(FAttrParser parser);
  // The fields of P as arguments, behind the tensors, and their parser.
  template <class P>
  OpRegistration& params(FAttrParser parser = ParamParser<P>) {
    return add_arguments(P::__FIELDS__()).set_attr_parser(std::move(parser));
  }
  // FInferShape and FInferType.
  OpRegistration& infer(FInferShape shape, FInferType type, int line = __builtin_LINE()) {
    return set_attr("FInferShape", std::move(shape), line).set_attr("FInferType", std::move(type), line);
  }

  template <class T>
  OpRegistration& set_attr(absl::string_view key, T value, int line = __builtin_LINE()) {
    line_ = line;
    Set(key, std::any(std::move(value)));
    return *this;
  }
  // FCompute<cpu>, from K::Run<cpu>; the plugin's build of the same file takes K::Run<gpu>. FPrepare<cpu>, from K::Prepare,
  // where K has such a function.
  template <class K>
  OpRegistration& compute(int line = __builtin_LINE()) {
    if constexpr (requires { &K::Prepare; }) set_attr<FPrepare>("FPrepare<cpu>", &K::Prepare, line);
    return set_attr<FCompute>("FCompute<cpu>", &K::template Run<cpu>, line);
  }
  // Facts that operators share: a function that sets them, and no kernel.
  template <class Facts>
  OpRegistration& with(const Facts& facts) {
    return facts(*this), *this;
  }
#endif

  static bool DeclareAttr(const char* key, std::type_index type, const char* file, int line);

 private:
  void Set(absl::string_view key, std::any value);

  Op* op_;
  const char* file_;
  int line_;
};

// Registers the operator `name`, or goes on with it if another file has begun.
#define GLUOND_REGISTER_OP(name) GLUOND_REGISTER_OP_NAMED(name, #name)
// The same where the operator's name is not an identifier or comes from a table.
#define GLUOND_REGISTER_OP_NAMED(id, text)                                                                \
  [[maybe_unused]] static const ::gluond::OpRegistration GLUOND_CONCAT_(gluond_op_##id##_, __COUNTER__) = \
      ::gluond::OpRegistration(text, __FILE__, __LINE__)

}  // namespace gluond

#endif  // ENGINE_CORE_OP_H_
