// gluond_op.hpp: gluond_op.h in C++17, as the server's own operators are written.
//
//   struct Abs {
//     template <class T> T operator()(T x) const { return x < 0 ? -x : x; }
//   };
//   Entries AbsGradient(Graph& g) { return {g.head(0) * g.Call("sign", {g.input(0)})}; }
//
//   GLUOND_REGISTER_OP(my_abs)
//       .describe("y = |x|, elementwise.")
//       .add_argument("data", "NDArray", "Any shape.")
//       .set_attr<FInplaceOption>("FInplaceOption", {{0, 0}})
//       .set_attr<FGradient>("FGradient", AbsGradient)
//       .compute<Elemwise<Abs>>();
//
// One file of a library defines GLUOND_LIBRARY_OF_OPERATORS(). Exceptions become errors of the call. Nothing of this header goes
// over the boundary, so a library may be compiled by another compiler than the server.

#ifndef GLUOND_OP_HPP_
#define GLUOND_OP_HPP_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gluond_op.h"

// A promise that a loop's iterations do not depend on each other.
#ifdef __clang__
#define GLUOND_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define GLUOND_IVDEP _Pragma("GCC ivdep")
#endif

// Hidden, so that each library has its own list of operators.
namespace gluond_op __attribute__((visibility("hidden"))) {

// The server's table.
inline const gluond_op_api* api = nullptr;

struct Status {
  int32_t code = GLUOND_OK;
  std::string text;
  bool ok() const { return code == GLUOND_OK; }
};
inline Status Ok() { return {}; }
inline Status InvalidArgument(std::string text) { return {GLUOND_INVALID_ARGUMENT, std::move(text)}; }
inline Status Internal(std::string text) { return {GLUOND_INTERNAL, std::move(text)}; }

struct Shape : std::vector<int64_t> {
  using std::vector<int64_t>::vector;
  bool known = true;  // Whether the rank is.
};
using Shapes = std::vector<Shape>;
using Types = std::vector<int32_t>;

// A list that somebody else owns.
template <class T>
struct Span {
  const T* data;
  size_t size;
  const T& operator[](size_t i) const { return data[i]; }
  const T* begin() const { return data; }
  const T* end() const { return data + size; }
};
using Tensors = Span<gluond_tensor>;
using Requests = Span<int32_t>;

template <class P>
struct Schema;

// The attributes of a call.
struct NodeAttrs {
  const gluond_call* call;
  const gluond_value& operator[](size_t i) const { return call->attributes[i]; }
  // The attributes as the structure that `params` was given.
  template <class P>
  P param() const {
    P p{};
    size_t i = 0;
    for (const auto& field : Schema<P>::Get().fields) field.set(&p, call->attributes[i++]);
    return p;
  }
};

struct OpContext {
  const gluond_run* run;
  bool is_train() const { return run->is_train != 0; }
  void* stream() const { return run->stream; }
  // body(begin, end) for the pieces of [0, n) on the threads of the CPU. The body throws nothing.
  template <class Body>
  void ParallelFor(int64_t n, int64_t grain, const Body& body) const {
    api->parallel_for(
        run, n, grain, [](void* f, int64_t begin, int64_t end) { (*static_cast<const Body*>(f))(begin, end); },
        const_cast<Body*>(&body));
  }
};

// An entry of a gradient's graph. Without one: no gradient.
struct Entry {
  gluond_graph* graph = nullptr;
  uint32_t id = 0;
};
using Entries = std::vector<Entry>;
using Attributes = std::vector<std::pair<std::string, std::string>>;

struct Graph {
  gluond_graph* graph;
  NodeAttrs attrs;
  Entry input(uint32_t i) const { return {graph, api->graph_input(graph, i)}; }
  Entry output(uint32_t i) const { return {graph, api->graph_output(graph, i)}; }
  Entry head(uint32_t i) const { return {graph, api->graph_head(graph, i)}; }
  // Output 0 of a call of an operator, by its name.
  Entry Call(const std::string& op, const Entries& inputs, const Attributes& attributes = {}) const {
    std::vector<uint32_t> ids;
    for (const Entry& each : inputs) ids.push_back(each.id);
    std::vector<const char*> texts;
    for (const auto& [name, text] : attributes) texts.insert(texts.end(), {name.c_str(), text.c_str()});
    texts.push_back(nullptr);
    return {graph, api->graph_node(graph, op.c_str(), ids.data(), static_cast<uint32_t>(ids.size()), texts.data())};
  }
  // Another output of that call.
  Entry Result(const Entry& first, uint32_t i) const { return {graph, api->graph_result(graph, first.id, i)}; }
  // The text of attribute `i`, for a call that has the same one.
  std::string text(size_t i) const { return attrs[i].text; }
};

inline Entry Binary(const char* op, const Entry& a, const Entry& b) { return Graph{a.graph, {}}.Call(op, {a, b}); }
inline Entry operator+(const Entry& a, const Entry& b) { return Binary("elemwise_add", a, b); }
inline Entry operator-(const Entry& a, const Entry& b) { return Binary("elemwise_sub", a, b); }
inline Entry operator*(const Entry& a, const Entry& b) { return Binary("elemwise_mul", a, b); }
inline Entry operator/(const Entry& a, const Entry& b) { return Binary("elemwise_div", a, b); }
inline Entry operator-(const Entry& a) { return Graph{a.graph, {}}.Call("negative", {a}); }

using FInferShape = std::function<Status(const NodeAttrs&, Shapes* in, Shapes* out)>;
using FInferType = std::function<Status(const NodeAttrs&, Types* in, Types* out)>;
using FGradient = std::function<Entries(Graph&)>;
using FCompute = std::function<Status(const NodeAttrs&, const OpContext&, Tensors in, Requests req, Tensors out)>;
using FInplaceOption = std::vector<std::pair<uint32_t, uint32_t>>;
using FNumVisibleOutputs = uint32_t;
using FListOutputNames = std::vector<std::string>;
using FMutateInputs = std::vector<uint32_t>;  // States, by the place of their input.
using FIgnoreInputs = std::vector<uint32_t>;  // Inputs of which the shape alone counts.

// The gradient by one operator, of the heads and the call's inputs, with the call's attributes.
struct ElemwiseGradUseIn {
  const char* op;
  std::vector<std::string> attributes = {};  // The names of those that it is given, which are the first ones.
  Entries operator()(Graph& g) const {
    Entries inputs{g.head(0)};
    for (uint32_t i = 0; i < g.attrs.call->num_inputs; ++i) inputs.push_back(g.input(i));
    Attributes texts;
    for (size_t i = 0; i < attributes.size(); ++i) texts.emplace_back(attributes[i], g.text(i));
    Entries result{g.Call(op, inputs, texts)};
    for (uint32_t i = 1; i < g.attrs.call->num_inputs; ++i) result.push_back(g.Result(result[0], i));
    return result;
  }
};

// A field of a structure of attributes.
struct FieldSpec {
  std::string name, text, default_text;
  bool has_default = false;
  int32_t kind = 0;
  std::vector<std::string> names;
  std::function<void(void*, const gluond_value&)> set;
  std::function<std::string(const gluond_value&)> check;  // What is wrong with a value; "": nothing.
};

template <class T>
struct FieldBuilder {
  FieldSpec& spec;
  FieldBuilder& Default(const std::string& text) { return spec.default_text = text, spec.has_default = true, *this; }
  FieldBuilder& Describe(std::string text) { return spec.text = std::move(text), *this; }
  // For int fields: the place among the names is the value.
  FieldBuilder& Enum(std::vector<std::string> names) { return spec.names = std::move(names), spec.kind = GLUOND_ATTR_ENUM, *this; }
  FieldBuilder& AtLeast(double low) { return Check([low](double v) { return v >= low; }, "want " + Text(low) + " or more"); }
  FieldBuilder& Above(double low) { return Check([low](double v) { return v > low; }, "want more than " + Text(low)); }
  FieldBuilder& Check(std::function<bool(double)> good, std::string want) {
    spec.check = [good = std::move(good), want = std::move(want)](const gluond_value& v) {
      return good(std::is_floating_point_v<T> ? v.number : static_cast<double>(v.integer)) ? std::string() : want;
    };
    return *this;
  }

 private:
  static std::string Text(double v) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", v);
    return text;
  }
};

// The fields of P, as P::Fields tells them: bool, int, int64_t, float, double, std::string, std::vector<int64_t>.
template <class P>
struct Schema {
  std::vector<FieldSpec> fields;
  template <class T>
  FieldBuilder<T> Field(std::string name, T P::*member) {
    FieldSpec& spec = fields.emplace_back();
    spec.name = std::move(name);
    if constexpr (std::is_same_v<T, bool>) {
      spec.kind = GLUOND_ATTR_BOOL;
    } else if constexpr (std::is_integral_v<T>) {
      spec.kind = GLUOND_ATTR_INT;
    } else if constexpr (std::is_floating_point_v<T>) {
      spec.kind = GLUOND_ATTR_FLOAT;
    } else if constexpr (std::is_same_v<T, std::string>) {
      spec.kind = GLUOND_ATTR_STRING;
    } else {
      static_assert(std::is_same_v<T, std::vector<int64_t>>, "no attribute is of this type");
      spec.kind = GLUOND_ATTR_INTS;
    }
    spec.set = [member](void* p, const gluond_value& v) {
      T& field = static_cast<P*>(p)->*member;
      if constexpr (std::is_floating_point_v<T>) field = static_cast<T>(v.number);
      if constexpr (std::is_integral_v<T>) field = static_cast<T>(v.integer);
      if constexpr (std::is_same_v<T, std::string>) field = v.text;
      if constexpr (std::is_same_v<T, std::vector<int64_t>>) field.assign(v.integers, v.integers + v.count);
    };
    return {spec};
  }
  Schema() { fields.reserve(64); }  // A builder's reference stays good.
  static const Schema& Get() {
    static const Schema& schema = *[] {
      auto* made = new Schema;
      return P::Fields(*made), made;
    }();
    return schema;
  }
};

// One operator's registration. It lives as long as the process.
class Op {
 public:
  Op& describe(std::string text) { return description_ = std::move(text), *this; }
  // `type`: "NDArray", or, for any number of inputs, "NDArray[]".
  Op& add_argument(std::string name, const std::string& type, std::string text) {
    inputs_.emplace_back(std::move(name), std::move(text));
    is_variable_ = type == "NDArray[]";
    return *this;
  }
  Op& set_num_outputs(uint32_t n) { return num_outputs_ = n, *this; }
  // The types that inputs and outputs may have, where one type is that of all. Otherwise any.
  Op& set_types(std::initializer_list<int32_t> types) {
    for (const int32_t type : types) facts_.dtypes |= uint64_t{1} << type;
    return *this;
  }
  template <class P>
  Op& params() {
    for (const FieldSpec& field : Schema<P>::Get().fields) fields_.push_back(field);
    return *this;
  }
  // The attribute that holds the number of inputs.
  Op& set_variable_inputs(std::string attribute) { return variable_inputs_ = std::move(attribute), *this; }
  // Keys and types are NNVM's; another pair keeps the library from being loaded.
  template <class T>
  Op& set_attr(const std::string& key, T value) {
    const auto is = [&key](const char* name) { return key == name; };
    bool known = false;
    if constexpr (std::is_same_v<T, FInferShape>) known = is("FInferShape") && (infer_shape_ = std::move(value), true);
    if constexpr (std::is_same_v<T, FInferType>) known = is("FInferType") && (infer_type_ = std::move(value), true);
    if constexpr (std::is_same_v<T, FGradient>) known = is("FGradient") && (gradient_ = std::move(value), true);
    if constexpr (std::is_same_v<T, FCompute>) {
      known = is("FCompute<cpu>") || is("FCompute<gpu>");
      (is("FCompute<gpu>") ? compute_gpu_ : compute_cpu_) = std::move(value);
    }
    if constexpr (std::is_same_v<T, FInplaceOption>) known = is("FInplaceOption") && (inplace_ = std::move(value), true);
    if constexpr (std::is_same_v<T, uint32_t>) known = is("FNumVisibleOutputs") && (facts_.num_visible_outputs = value, true);
    if constexpr (std::is_same_v<T, FListOutputNames>) known = is("FListOutputNames") && (output_names_ = std::move(value), true);
    if constexpr (std::is_same_v<T, std::vector<uint32_t>>) {
      known = is("FMutateInputs") || is("FIgnoreInputs");
      (is("FMutateInputs") ? states_ : shape_only_) = std::move(value);
    }
    if (!known) mistake_ = "operator '" + name_ + "': no attribute '" + key + "' has this type";
    return *this;
  }
  template <class K>
  Op& compute() {
    set_types(K::kTypes);
    return set_attr<FCompute>("FCompute<cpu>", &K::Run);
  }

  static Op& Add(const char* name) {
    All().push_back(std::make_unique<Op>());
    All().back()->name_ = name;
    return *All().back();
  }
  // What a library's register_operators does.
  static int32_t RegisterAll(const gluond_op_api* server, gluond_registration* registration) {
    api = server;
    for (const auto& op : All()) {
      if (const int32_t code = op->Register(registration); code != GLUOND_OK) return code;
    }
    return GLUOND_OK;
  }

 private:
  using Ops = std::vector<std::unique_ptr<Op>>;
  static Ops& All() {
    static Ops& all = *new Ops;
    return all;
  }
  static const Op& Of(const gluond_call* call) { return *static_cast<const Op*>(call->user); }

  // The status of `f`, and of what it throws.
  template <class F>
  static int32_t Guarded(gluond_error* error, const F& f) noexcept {
    try {
      const Status status = f();
      return status.ok() ? GLUOND_OK : api->fail(error, status.code, status.text.c_str());
    } catch (const std::bad_alloc&) {
      return api->fail(error, GLUOND_RESOURCE_EXHAUSTED, "out of memory");
    } catch (const std::exception& thrown) {
      return api->fail(error, GLUOND_INTERNAL, thrown.what());
    } catch (...) {
      return api->fail(error, GLUOND_INTERNAL, "it threw something that is no std::exception");
    }
  }

  static Shapes ToShapes(const gluond_shape* shapes, uint32_t n) {
    Shapes result(n);
    for (uint32_t i = 0; i < n; ++i) {
      result[i].known = shapes[i].ndim >= 0;
      if (result[i].known) result[i].assign(shapes[i].dims, shapes[i].dims + shapes[i].ndim);
    }
    return result;
  }
  static Status FromShapes(const Shapes& shapes, gluond_shape* to, uint32_t n) {
    if (shapes.size() != n) return Internal("the rule has another number of shapes");
    for (uint32_t i = 0; i < n; ++i) {
      if (shapes[i].size() > GLUOND_MAX_RANK) return Internal("a shape has a rank over 8");
      const bool known = shapes[i].known || !shapes[i].empty();
      to[i].ndim = known ? static_cast<int32_t>(shapes[i].size()) : -1;
      std::copy(shapes[i].begin(), shapes[i].end(), to[i].dims);
    }
    return Ok();
  }

  static int32_t CheckCall(const gluond_call* call, gluond_error* error) {
    return Guarded(error, [call] {
      const gluond_value* value = call->attributes;
      for (const FieldSpec& field : Of(call).fields_) {
        const std::string wrong = field.check ? field.check(*value) : "";
        if (!wrong.empty()) return InvalidArgument("attribute '" + field.name + "' is '" + value->text + "'; " + wrong);
        ++value;
      }
      return Ok();
    });
  }
  static int32_t InferShapes(const gluond_call* call, gluond_shape* in, gluond_shape* out, gluond_error* error) {
    return Guarded(error, [=] {
      Shapes ins = ToShapes(in, call->num_inputs), outs = ToShapes(out, call->num_outputs);
      Status status = Of(call).infer_shape_({call}, &ins, &outs);
      if (status.ok()) status = FromShapes(ins, in, call->num_inputs);
      return status.ok() ? FromShapes(outs, out, call->num_outputs) : status;
    });
  }
  static int32_t InferTypes(const gluond_call* call, int32_t* in, int32_t* out, gluond_error* error) {
    return Guarded(error, [=] {
      Types ins(in, in + call->num_inputs), outs(out, out + call->num_outputs);
      Status status = Of(call).infer_type_({call}, &ins, &outs);
      if (!status.ok()) return status;
      if (ins.size() != call->num_inputs || outs.size() != call->num_outputs) return Internal("the rule has another number of types");
      std::copy(ins.begin(), ins.end(), in);
      std::copy(outs.begin(), outs.end(), out);
      return status;
    });
  }
  static int32_t Gradient(const gluond_call* call, gluond_graph* graph, gluond_error* error) {
    return Guarded(error, [=] {
      Graph g{graph, {call}};
      const Entries entries = Of(call).gradient_(g);
      for (uint32_t i = 0; i < entries.size(); ++i) {
        if (entries[i].graph != nullptr) api->graph_gradient(graph, i, entries[i].id);
      }
      return Ok();
    });
  }
  template <FCompute Op::*kernel>
  static int32_t Compute(const gluond_call* call, const gluond_run* run, const gluond_tensor* in, const int32_t* req,
                         const gluond_tensor* out, gluond_error* error) {
    return Guarded(error, [&] {
      return (Of(call).*kernel)({call}, {run}, {in, call->num_inputs}, {req, call->num_outputs}, {out, call->num_outputs});
    });
  }

  int32_t Register(gluond_registration* registration);

  std::string name_, description_, variable_inputs_, mistake_;
  std::vector<std::pair<std::string, std::string>> inputs_;  // Names and texts.
  bool is_variable_ = false;
  uint32_t num_outputs_ = 1;
  std::vector<FieldSpec> fields_;
  FInferShape infer_shape_;
  FInferType infer_type_;
  FGradient gradient_;
  FCompute compute_cpu_, compute_gpu_;
  FInplaceOption inplace_;
  FListOutputNames output_names_;
  std::vector<uint32_t> states_, shape_only_;
  gluond_op_facts facts_{};
};

inline int32_t Op::Register(gluond_registration* registration) {
  if (!mistake_.empty()) name_ = mistake_;  // The server refuses a name with such characters, and shows it.
  std::vector<gluond_input> inputs;
  for (const auto& [name, text] : inputs_) inputs.push_back({name.c_str(), text.c_str(), 0});
  for (const uint32_t i : states_) inputs.at(i).flags = GLUOND_INPUT_STATE;
  for (const uint32_t i : shape_only_) inputs.at(i).flags = GLUOND_INPUT_SHAPE_ONLY;
  std::vector<std::vector<const char*>> names(fields_.size());
  std::vector<gluond_attribute> attributes;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const FieldSpec& field = fields_[i];
    for (const std::string& each : field.names) names[i].push_back(each.c_str());
    names[i].push_back(nullptr);
    attributes.push_back({field.name.c_str(), field.text.c_str(), field.has_default ? field.default_text.c_str() : nullptr,
                          names[i].data(), field.kind, 0});
  }
  std::vector<gluond_inplace> inplace;
  for (const auto& [input, output] : inplace_) inplace.push_back({input, output});
  std::vector<const char*> output_names;
  for (const std::string& each : output_names_) output_names.push_back(each.c_str());
  if (!output_names.empty()) output_names.resize(num_outputs_, "");
  facts_.sizes = GLUOND_SIZES;
  facts_.name = name_.c_str();
  facts_.description = description_.c_str();
  facts_.inputs = inputs.data();
  facts_.num_inputs = static_cast<uint32_t>(inputs.size());
  facts_.num_outputs = num_outputs_;
  facts_.output_names = output_names.empty() ? nullptr : output_names.data();
  facts_.attributes = attributes.data();
  facts_.num_attributes = static_cast<uint32_t>(attributes.size());
  facts_.inplace = inplace.data();
  facts_.num_inplace = static_cast<uint32_t>(inplace.size());
  facts_.variable_inputs = is_variable_ ? variable_inputs_.c_str() : nullptr;
  facts_.user = this;
  facts_.check = CheckCall;
  if (infer_shape_) facts_.infer_shape = InferShapes;
  if (infer_type_) facts_.infer_type = InferTypes;
  if (gradient_) facts_.gradient = Gradient;
  if (compute_cpu_) facts_.compute_cpu = Compute<&Op::compute_cpu_>;
  if (compute_gpu_) facts_.compute_gpu = Compute<&Op::compute_gpu_>;
  return api->register_op(registration, &facts_);
}

// y[i] = f(x0[i], x1[i], ...) by a function of float or double. One that reads attributes has a constructor from NodeAttrs.
template <class F, size_t inputs = 1>
struct Elemwise {
  static constexpr std::initializer_list<int32_t> kTypes = {GLUOND_DTYPE_FLOAT32, GLUOND_DTYPE_FLOAT64};
  static constexpr int64_t kGrain = 1 << 15;

  static Status Run(const NodeAttrs& attrs, const OpContext& ctx, Tensors in, Requests req, Tensors out) {
    if (req[0] == GLUOND_NULL_OP) return Ok();
    const auto places = std::make_index_sequence<inputs>();
    out[0].dtype == GLUOND_DTYPE_FLOAT32 ? RunIn<float>(attrs, ctx, in, req[0], out[0], places)
                                         : RunIn<double>(attrs, ctx, in, req[0], out[0], places);
    return Ok();
  }

 private:
  static F Make(const NodeAttrs& attrs) {
    if constexpr (std::is_constructible_v<F, const NodeAttrs&>) return F(attrs);
    if constexpr (!std::is_constructible_v<F, const NodeAttrs&>) return F();
  }
  template <class T, size_t... k>
  static void RunIn(const NodeAttrs& attrs, const OpContext& ctx, Tensors in, int32_t req, const gluond_tensor& out,
                    std::index_sequence<k...>) {
    const F f = Make(attrs);
    const T* const x[inputs] = {static_cast<const T*>(in[k].data)...};
    T* const y = static_cast<T*>(out.data);
    ctx.ParallelFor(out.size, kGrain, [&](int64_t begin, int64_t end) {
      const F local = f;  // So that its members stay in registers.
      const T* const from[inputs] = {x[k]...};
      T* const to = y;
      const bool adds = req == GLUOND_ADD_TO;
      // An output that is also an input is so element by element.
      GLUOND_IVDEP
      for (int64_t i = adds ? end : begin; i < end; ++i) to[i] = local(from[k][i]...);
      GLUOND_IVDEP
      for (int64_t i = adds ? begin : end; i < end; ++i) to[i] += local(from[k][i]...);
    });
  }
};

}  // namespace gluond_op

#define GLUOND_REGISTER_OP(name) [[maybe_unused]] static ::gluond_op::Op& gluond_registered_##name = ::gluond_op::Op::Add(#name)
#define GLUOND_LIBRARY_OF_OPERATORS() GLUOND_OPERATOR_LIBRARY(::gluond_op::Op::RegisterAll)

#endif  // GLUOND_OP_HPP_
