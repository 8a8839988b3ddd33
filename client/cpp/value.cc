#include "gluond/value.h"

#include <algorithm>

#include "gluond/types.h"

namespace gluond::client {

Value::Value(std::initializer_list<double> tuple) : is(Tuple(tuple.begin(), tuple.end())) {}

Value::Value(Attributes fields) : is(std::move(fields)) {}

Value::Value(const Component& component) : is(Attributes{{"attributes", component.attributes}, {"name", component.name}}) {}

Component Named(std::string name, Attributes attributes) { return {std::move(name), std::move(attributes)}; }

const Value* Find(const Attributes& attributes, const std::string& name) {
  const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const auto& each) { return each.first == name; });
  return found == attributes.end() ? nullptr : &found->second;
}

bool operator==(const Value& a, const Value& b) { return a.is == b.is; }

}  // namespace gluond::client
