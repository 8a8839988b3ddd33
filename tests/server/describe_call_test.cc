// DescribeCall and ListOperators tell the truth of every operator's calls: clients know their results' types by it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/known_outputs.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/nn/node_spec.h"
#include "server/codec/describe_operator.h"

namespace gluond::server {
namespace {

// Values of a parameter that a call may have. Operators refuse some of them.
std::vector<std::string> Values(const ArgumentDoc& doc) {
  if (absl::StartsWith(doc.type, "{")) {
    std::vector<std::string> values;
    const std::vector<std::string> parts = absl::StrSplit(doc.type, '\'');
    for (size_t i = 1; i < parts.size(); i += 2) values.push_back(parts[i]);
    return values;
  }
  if (absl::StartsWith(doc.type, "boolean")) return {"True", "False"};
  if (absl::StartsWith(doc.type, "int") || absl::StartsWith(doc.type, "long")) return {"1", "2", "3", "0", "4"};
  if (absl::StartsWith(doc.type, "float")) return {"0.5", "2", "0"};
  if (absl::StartsWith(doc.type, "dtype")) return {"float32", "int32", "float64", "int64"};
  if (absl::StartsWith(doc.type, "tuple of float")) return {"(0.5,)", "(1, 2)", "(0.1, 0.2, 0.3, 0.4)"};
  if (absl::StartsWith(doc.type, "tuple")) return {"(1,)", "(2, 2)", "(1, 2)", "(1, 2, 2)", "()", "(1, 1, 1)", "(0,)", "(0, 1)"};
  // The last ones are numbers of optimizers' steps.
  return {"0", "1", "(1, 2)", "wd", "lr,t", "lower_bound"};
}

constexpr uint32_t kManyInputs = 3;  // An operator that takes any number gets so many.

class Caller {
 public:
  explicit Caller(const Op* op) : op_(op) {
    for (const ArgumentDoc& doc : op->arguments())
      if (!absl::StartsWith(doc.type, "NDArray")) parameters_.push_back(doc);
  }

  const std::vector<ArgumentDoc>& parameters() const { return parameters_; }

  bool Parses(const AttrDict& dict, NodeAttrs* attrs) const {
    *attrs = NodeAttrs();
    attrs->op = op_;
    attrs->dict = dict;
    return op_->ParseAttrs(attrs, kManyInputs).ok();
  }

  // A call with its required parameters only, and one more where the operator wants some; nullopt: none was found.
  std::optional<AttrDict> Plain() const {
    std::optional<AttrDict> found = Plain(0, {});
    for (const ArgumentDoc& doc : parameters_) {
      for (const std::string& value : Values(doc)) {
        if (!found) found = Plain(0, {{doc.name, value}});
      }
    }
    return found;
  }

  // The call's type; "" where the operator refuses it.
  std::string Type(const AttrDict& dict, uint32_t num_inputs) const {
    v1::Command::DescribeCall describe;
    describe.set_op(op_->name());
    describe.set_num_inputs(num_inputs);
    for (const auto& [name, text] : dict) (*describe.mutable_attributes())[name].set_string_value(text);
    const absl::StatusOr<v1::CallType> type = DescribeCall(describe);
    return type.ok() ? type->DebugString() : "";
  }
  // A number of inputs with which the operator takes the call.
  uint32_t NumInputs(const AttrDict& dict) const {
    for (const uint32_t n : {3, 1, 2, 4, 5, 6, 7, 8, 9, 12})
      if (!Type(dict, n).empty()) return n;
    return 0;
  }

 private:
  std::optional<AttrDict> Plain(size_t from, AttrDict dict) const {
    while (from < parameters_.size() && !parameters_[from].required) ++from;
    if (from == parameters_.size()) {
      NodeAttrs attrs;
      return Parses(dict, &attrs) ? std::optional(dict) : std::nullopt;
    }
    for (const std::string& value : Values(parameters_[from])) {
      dict[parameters_[from].name] = value;
      if (std::optional<AttrDict> found = Plain(from + 1, dict)) return found;
    }
    return std::nullopt;
  }

  const Op* op_;
  std::vector<ArgumentDoc> parameters_;
};

// The operators that a client may call by name and attributes alone.
std::vector<const Op*> Offered() {
  const std::set<absl::string_view> others = {"Custom", "_CustomFunction", "_CachedOp"};
  std::vector<const Op*> ops;
  for (const std::string& name : Op::ListNames()) {
    const absl::StatusOr<const Op*> op = OfferedOp(name);
    if (op.ok() && !others.contains(name)) ops.push_back(*op);
  }
  return ops;
}

TEST(DescribeCallTest, CallsThatAgreeInWhatDecidesAreOfOneType) {
  std::map<std::string, std::string> wrong;
  std::set<std::string> decided, tried;
  std::vector<std::string> left_out;
  const std::vector<const Op*> offered = Offered();
  for (const Op* op : offered) {
    const Caller caller(op);
    const std::optional<AttrDict> plain = caller.Plain();
    if (!plain) left_out.push_back(op->name());
    if (!plain) continue;
    std::vector<AttrDict> calls = {*plain};  // By each value of what decides.
    for (const ArgumentDoc& doc : caller.parameters()) {
      for (const std::string& value : Values(doc)) {
        if (doc.decides) calls.push_back(*plain), calls.back()[doc.name] = value;
      }
    }
    for (const AttrDict& call : calls) {
      const uint32_t num_inputs = caller.NumInputs(call);
      const std::string type = caller.Type(call, num_inputs);
      for (const ArgumentDoc& doc : caller.parameters()) {
        for (const std::string& value : Values(doc)) {
          AttrDict other = call;
          other[doc.name] = value;
          const std::string changed = caller.Type(other, doc.decides ? caller.NumInputs(other) : num_inputs);
          if (type.empty() || changed.empty()) continue;
          if (value != doc.default_text && call != other) tried.insert(absl::StrCat(op->name(), ".", doc.name));
          if (changed == type) continue;
          if (doc.decides)
            decided.insert(absl::StrCat(op->name(), ".", doc.name));
          else
            wrong.emplace(absl::StrCat(op->name(), ".", doc.name), absl::StrCat(value, ": ", type, "->\n", changed));
        }
      }
    }
    for (const ArgumentDoc& doc : caller.parameters()) {
      const std::string name = absl::StrCat(op->name(), ".", doc.name);
      if (doc.decides && !absl::StartsWith(doc.type, "dtype") && tried.contains(name) && !decided.contains(name)) {
        wrong.emplace(name, "decides nothing");
      }
    }
  }
  EXPECT_LE(left_out.size(), 3) << "Give Values() some that the operators take: " << testing::PrintToString(left_out);
  for (const auto& [name, why] : wrong) ADD_FAILURE() << name << ": " << why;
}

TEST(DescribeCallTest, TheShapeThatIsToldIsTheOneThatIsInferred) {
  const std::vector<Shape> shapes = {{3}, {6, 4}, {5, 6, 4}, {2, 6, 4, 3}};
  const std::vector<std::pair<Shape, Shape>> broadcasts = {{{3}, {7, 1, 3}}, {{6, 1}, {7, 6, 1}}, {{2, 1, 4, 3}, {2, 7, 4, 3}}};
  std::set<std::string> first, broadcast;
  for (const Op* op : Offered()) {
    const Caller caller(op);
    NodeAttrs attrs;
    if (!caller.Parses(caller.Plain().value_or(AttrDict()), &attrs)) continue;
    const OutputShape told = OutputShapeOf(attrs);
    if (told == OutputShape::kInferred) continue;
    uint32_t num_inputs = op->num_inputs(attrs);
    if (num_inputs == kVarg) num_inputs = kManyInputs;
    ShapeVector in(num_inputs), out(attrs.facts->num_outputs);
    for (const Shape& shape : shapes) {
      if (told != OutputShape::kFirst) break;
      in.assign(num_inputs, Shape()), out.assign(out.size(), Shape());
      in[0] = shape;
      if (!InferShape(attrs, &in, &out).ok()) continue;
      EXPECT_EQ(out[0], shape) << op->name();
      first.insert(op->name());
    }
    for (const auto& [shape, wanted] : broadcasts) {
      if (told != OutputShape::kBroadcast) break;
      in = {shape, Shape({7, 1, 1})}, out.assign(out.size(), Shape());
      EXPECT_TRUE(InferShape(attrs, &in, &out).ok()) << op->name();
      EXPECT_EQ(out[0], wanted) << op->name();
      broadcast.insert(op->name());
    }
  }
  EXPECT_THAT(first, testing::IsSupersetOf({"relu", "softmax", "Dropout", "LayerNorm", "BatchNorm", "LeakyReLU", "reverse",
                                            "_plus_scalar", "elemwise_add", "clip", "SequenceMask", "Cast"}));
  EXPECT_THAT(broadcast, testing::IsSupersetOf({"broadcast_add", "broadcast_equal", "broadcast_hypot"}));
}

TEST(DescribeCallTest, TellsTheDtypeThatAParameterGives) {
  v1::Command::DescribeCall describe;
  describe.set_op("softmax");
  v1::CallType type = DescribeCall(describe).value();
  EXPECT_EQ(type.shape(), v1::CallType::FIRST);
  EXPECT_EQ(type.dtypes().at(v1::Tensor::FLOAT16), v1::Tensor::FLOAT16);
  EXPECT_FALSE(type.dtypes().contains(v1::Tensor::INT32)) << "It takes no integers";
  (*describe.mutable_attributes())["dtype"].set_string_value("float64");
  type = DescribeCall(describe).value();
  EXPECT_EQ(type.dtypes().at(v1::Tensor::FLOAT16), v1::Tensor::FLOAT64);
}

}  // namespace
}  // namespace gluond::server
