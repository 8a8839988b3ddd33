#include "client/cpp/session/arithmetic.h"

#include <cstdint>
#include <optional>
#include <utility>

namespace gluond::client {

const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "float32";
    case DType::kFloat64: return "float64";
    case DType::kFloat16: return "float16";
    case DType::kUint8: return "uint8";
    case DType::kInt32: return "int32";
    case DType::kInt8: return "int8";
    case DType::kInt64: return "int64";
    case DType::kBool: return "bool";
    case DType::kBfloat16: return "bfloat16";
  }
  return "unknown";
}

Value TupleOf(const Shape& shape) {
  Value::Tuple tuple;
  for (const int64_t size : shape) tuple.emplace_back(size);
  return Value(std::move(tuple));
}

Cut CutOf(std::initializer_list<Index> indices) {
  const auto bound = [](std::optional<int64_t> value) { return value.has_value() ? Value(*value) : Value(); };
  Cut cut;
  Value::Tuple begin, end, step;
  int64_t axis = 0;
  for (const Index& index : indices) {
    if (index.at.has_value()) {
      begin.emplace_back(*index.at);
      end.push_back(*index.at == -1 ? Value() : Value(*index.at + 1));
      step.emplace_back(1);
      cut.dropped.emplace_back(axis);
    } else {
      begin.push_back(bound(index.range.begin));
      end.push_back(bound(index.range.end));
      step.push_back(bound(index.range.step));
    }
    ++axis;
  }
  cut.ranges = {{"begin", begin}, {"end", end}, {"step", step}};
  return cut;
}

}  // namespace gluond::client
