// SymbolNode: an operator's call in a client's graph, or a variable.

#ifndef GLUOND_CLIENT_CPP_GLUON_SYMBOL_NODE_H_
#define GLUOND_CLIENT_CPP_GLUON_SYMBOL_NODE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gluond/place.h"
#include "gluond/symbol.h"
#include "gluond/v1/graph.pb.h"
#include "gluond/value.h"

namespace gluond::client {

struct ParameterState;

struct SymbolNode {
  SymbolNode() = default;
  ~SymbolNode();  // A graph may be long: its nodes end one after the other.
  SymbolNode(const SymbolNode&) = delete;

  std::string op;    // Empty: a variable.
  std::string name;  // The variable's.
  Attributes attributes;
  std::vector<Symbol> inputs;
  std::shared_ptr<const v1::CustomOperatorSpec> custom;  // Null: the server knows the operator.
  std::shared_ptr<ParameterState> parameter;             // The variable's; null: it is an input.
  absl::Status error;                                    // Why there is none.
  Place place;
};

// As Invoke, with a client's operator.
std::vector<Symbol> InvokeCustom(absl::string_view op, absl::Span<const Symbol> inputs, const Attributes& attributes, int outputs,
                                 std::shared_ptr<const v1::CustomOperatorSpec> custom, Place place);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_GLUON_SYMBOL_NODE_H_
