#include "gluond/symbol.h"

#include <utility>

#include "client/cpp/gluon/symbol_node.h"
#include "client/cpp/session/arithmetic.h"
#include "client/cpp/session/core.h"
#include "client/cpp/session/wire.h"
#include "client/cpp/value_message.h"
#include "gluond/v1/command.pb.h"

namespace gluond::client {
namespace {

Symbol Composed(const Symbol& a, const SymbolOperand& b, const char* with_symbol, const char* with_number) {
  if (b.symbol.is_defined()) return Invoke(with_symbol, {a, b.symbol}, {}, 1, b.place)[0];
  return Invoke(with_number, {a}, {{"scalar", b.number}}, 1, b.place)[0];
}

Symbol ComposedReversed(double a, const SymbolOperand& b, const char* with_number) {
  return Invoke(with_number, {b.symbol}, {{"scalar", a}}, 1, b.place)[0];
}

absl::StatusOr<int> AskForOutputs(absl::string_view op, size_t inputs, const Attributes& attributes,
                                  const v1::CustomOperatorSpec* custom, Place place) {
  auto session = SessionCore::Current();
  if (!session.ok()) return session.status();
  auto call = (*session)->CallOf(op, attributes, inputs, kAskOutputs, custom, place);
  if (!call.ok()) return call.status();
  return (*call)->outputs;
}

}  // namespace

SymbolNode::~SymbolNode() {
  std::vector<Symbol> dying = std::move(inputs);
  while (!dying.empty()) {
    const Symbol last = std::move(dying.back());
    dying.pop_back();
    if (last.node() == nullptr || last.node().use_count() > 1) continue;
    std::vector<Symbol>& next = const_cast<SymbolNode&>(*last.node()).inputs;
    dying.insert(dying.end(), std::make_move_iterator(next.begin()), std::make_move_iterator(next.end()));
    next.clear();
  }
}

Symbol Symbol::Variable(std::string name) {
  auto node = std::make_shared<SymbolNode>();
  node->name = std::move(name);
  return Symbol(std::move(node), 0);
}

Symbol Symbol::Failed(absl::Status error, Place place) {
  auto node = std::make_shared<SymbolNode>();
  node->error = Located(std::move(error), place);
  return Symbol(std::move(node), 0);
}

Symbol Symbol::Copy(Place place) const { return Invoke("_copy", {*this}, {}, 1, place)[0]; }
Symbol Symbol::AsType(DType dtype, Place place) const { return Invoke("Cast", {*this}, {{"dtype", NameOf(dtype)}}, 1, place)[0]; }
Symbol Symbol::Reshape(const Shape& shape, Place place) const {
  return Invoke("Reshape", {*this}, {{"shape", TupleOf(shape)}}, 1, place)[0];
}
Symbol Symbol::T(Place place) const { return Invoke("transpose", {*this}, {}, 1, place)[0]; }
Symbol Symbol::Sum(Place place) const { return Invoke("sum", {*this}, {}, 1, place)[0]; }
Symbol Symbol::Mean(Place place) const { return Invoke("mean", {*this}, {}, 1, place)[0]; }
Symbol Symbol::Detach(Place place) const { return Invoke("BlockGrad", {*this}, {}, 1, place)[0]; }

Symbol Symbol::At(std::initializer_list<Index> indices, Place place) const {
  const Cut cut = CutOf(indices);
  const Symbol part = Invoke("slice", {*this}, cut.ranges, 1, place)[0];
  return cut.dropped.empty() ? part : Invoke("squeeze", {part}, {{"axis", cut.dropped}}, 1, place)[0];
}

std::vector<Symbol> InvokeCustom(absl::string_view op, absl::Span<const Symbol> inputs, const Attributes& attributes, int outputs,
                                 std::shared_ptr<const v1::CustomOperatorSpec> custom, Place place) {
  auto node = std::make_shared<SymbolNode>();
  node->op = std::string(op);
  node->attributes = attributes;
  node->inputs.assign(inputs.begin(), inputs.end());
  node->place = place;
  for (const Symbol& input : inputs) {
    if (!input.is_defined()) {
      node->error =
          Located(absl::InvalidArgumentError("a symbol that is not defined (default-constructed) was used; want a symbol"), place);
    }
  }
  if (node->error.ok() && outputs == kAskOutputs) {
    const absl::StatusOr<int> told = AskForOutputs(op, inputs.size(), attributes, custom.get(), place);
    if (told.ok()) {
      outputs = *told;
    } else {
      node->error = Located(told.status(), place);
    }
  }
  node->custom = std::move(custom);
  std::vector<Symbol> results;
  for (int i = 0; i < std::max(outputs, 1); ++i) results.emplace_back(node, i);
  return results;
}

std::vector<Symbol> Invoke(absl::string_view op, absl::Span<const Symbol> inputs, const Attributes& attributes, int outputs,
                           Place place) {
  return InvokeCustom(op, inputs, attributes, outputs, nullptr, place);
}

Symbol Invoke1(absl::string_view op, absl::Span<const Symbol> inputs, const Attributes& attributes, Place place) {
  return Invoke(op, inputs, attributes, kAskOutputs, place)[0];
}

Symbol operator+(const Symbol& a, const SymbolOperand& b) { return Composed(a, b, "broadcast_add", "_plus_scalar"); }
Symbol operator-(const Symbol& a, const SymbolOperand& b) { return Composed(a, b, "broadcast_sub", "_minus_scalar"); }
Symbol operator*(const Symbol& a, const SymbolOperand& b) { return Composed(a, b, "broadcast_mul", "_mul_scalar"); }
Symbol operator/(const Symbol& a, const SymbolOperand& b) { return Composed(a, b, "broadcast_div", "_div_scalar"); }
Symbol operator==(const Symbol& a, const SymbolOperand& b) { return Composed(a, b, "broadcast_equal", "_equal_scalar"); }
Symbol operator!=(const Symbol& a, const SymbolOperand& b) { return Composed(a, b, "broadcast_not_equal", "_not_equal_scalar"); }
Symbol operator<(const Symbol& a, const SymbolOperand& b) { return Composed(a, b, "broadcast_lesser", "_lesser_scalar"); }
Symbol operator<=(const Symbol& a, const SymbolOperand& b) {
  return Composed(a, b, "broadcast_lesser_equal", "_lesser_equal_scalar");
}
Symbol operator>(const Symbol& a, const SymbolOperand& b) { return Composed(a, b, "broadcast_greater", "_greater_scalar"); }
Symbol operator>=(const Symbol& a, const SymbolOperand& b) {
  return Composed(a, b, "broadcast_greater_equal", "_greater_equal_scalar");
}
Symbol operator+(double a, const SymbolOperand& b) { return ComposedReversed(a, b, "_plus_scalar"); }
Symbol operator-(double a, const SymbolOperand& b) { return ComposedReversed(a, b, "_rminus_scalar"); }
Symbol operator*(double a, const SymbolOperand& b) { return ComposedReversed(a, b, "_mul_scalar"); }
Symbol operator/(double a, const SymbolOperand& b) { return ComposedReversed(a, b, "_rdiv_scalar"); }
Symbol operator-(const Symbol& a) { return Invoke("negative", {a}, {}, 1, Place{})[0]; }

}  // namespace gluond::client
