// NodeAttrs: the attributes of one operator call. `dict` keeps the user's text, and is saved; `parsed` holds the values
// that the operator's attribute parser read in it.

#ifndef ENGINE_CORE_NODE_ATTRS_H_
#define ENGINE_CORE_NODE_ATTRS_H_

#include <any>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace gluond {

class Op;
struct OpFacts;

// Ordered, so that equal attributes print and hash alike.
using AttrDict = std::map<std::string, std::string, std::less<>>;

struct NodeAttrs {
  // Passes read the first two of each node, and its inputs, which lie beside them (graph.h).
  const Op* op = nullptr;                // nullptr: a variable.
  std::shared_ptr<const OpFacts> facts;  // Set by FindFacts. Calls of one operator share them where they are equal.
  uint32_t random_stream = 0;            // The Philox stream of a call that draws random numbers (engine/passes/assign_streams.h).
  uint64_t call = 0;                     // Set by FindFacts: copies of these attributes share the number, and no others have it.
  std::string name;                      // The node's, for messages.
  AttrDict dict;
  std::any parsed;                                 // Set by Store.
  const void* (*find)(const std::any&) = nullptr;  // Set by Store.

  // Makes `parsed` hold `param`.
  template <class P>
  void Store(P param) {
    parsed = std::move(param);
    find = [](const std::any& any) -> const void* { return std::any_cast<P>(&any); };
  }
  // Requires: the operator's parser stored a P. The program that stored it finds it: to a plugin, built from the same
  // text, a type of an unnamed namespace is another one, which any_cast does not find.
  template <class P>
  const P& param() const {
    return *static_cast<const P*>(find(parsed));
  }
};

}  // namespace gluond

#endif  // ENGINE_CORE_NODE_ATTRS_H_
