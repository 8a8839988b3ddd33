// NodeAttrs: the attributes of one operator call. `dict` keeps what the user wrote, and is what is saved;
// `parsed` is what the operator's attribute parser made of it.

#ifndef ENGINE_CORE_NODE_ATTRS_H_
#define ENGINE_CORE_NODE_ATTRS_H_

#include <any>
#include <map>
#include <string>

namespace gluond {

class Op;
class SchemaBase;

// Ordered, so that equal attributes print and hash alike.
using AttrDict = std::map<std::string, std::string, std::less<>>;

struct NodeAttrs {
  const Op* op = nullptr;  // nullptr: a variable.
  std::string name;        // Of the node, for messages.
  AttrDict dict;
  std::any parsed;
  const SchemaBase* schema = nullptr;              // Set by ParamParser.
  void* (*mutable_param)(std::any&) = nullptr;     // Set by ParamParser.

  // Requires: the operator's parser stored a P.
  template <class P>
  const P& param() const { return *std::any_cast<P>(&parsed); }
};

}  // namespace gluond

#endif  // ENGINE_CORE_NODE_ATTRS_H_
