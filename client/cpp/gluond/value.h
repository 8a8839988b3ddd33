// Value is an attribute of an operator, a block, an optimizer: a number, a boolean, a text, a tuple, or a thing by its name.
//
//   Attributes attributes = {{"units", 64}, {"activation", "relu"}, {"kernel_size", {5, 5}}, {"use_bias", false}};
//   Component sgd = Named("sgd", {{"learning_rate", 0.1}, {"momentum", 0.9}});

#ifndef GLUOND_VALUE_H_
#define GLUOND_VALUE_H_

#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "gluond/export.h"

namespace gluond::client {

struct Component;
struct Value;

// Values by name, in the order in which they were given; those of a server's answer by their names.
using Attributes = std::vector<std::pair<std::string, Value>>;

struct GLUOND_EXPORT Value {
  using Tuple = std::vector<Value>;

  Value() = default;  // MXNet's None.
  Value(bool value) : is(value) {}
  template <class Number, std::enable_if_t<std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>, int> = 0>
  Value(Number value) {
    const auto number = static_cast<double>(value);
    constexpr double kExact = 9007199254740992;  // From 2^53 on, a double loses an integer's digits.
    if (std::is_integral_v<Number> && (number >= kExact || number <= -kExact)) {
      is = std::to_string(value);
    } else {
      is = number;
    }
  }
  Value(const char* value) : is(std::string(value)) {}
  Value(std::string value) : is(std::move(value)) {}
  Value(Tuple tuple) : is(std::move(tuple)) {}
  Value(std::initializer_list<double> tuple);
  Value(Attributes fields);
  Value(const Component& component);

  std::variant<std::monostate, bool, double, std::string, Tuple, Attributes> is;
};

// An initializer, loss, optimizer, schedule or metric.
GLUOND_EXPORT Component Named(std::string name, Attributes attributes = {});

// The value of that name; null: there is none.
GLUOND_EXPORT const Value* Find(const Attributes& attributes, const std::string& name);

GLUOND_EXPORT bool operator==(const Value& a, const Value& b);
inline bool operator!=(const Value& a, const Value& b) { return !(a == b); }

}  // namespace gluond::client

#endif  // GLUOND_VALUE_H_
