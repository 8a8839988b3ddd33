#include "engine/core/dtype.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gluond {

absl::string_view Name(DType type) {
  switch (type) {
    case DType::kFloat32: return "float32";
    case DType::kFloat64: return "float64";
    case DType::kFloat16: return "float16";
    case DType::kBfloat16: return "bfloat16";
    case DType::kUint8: return "uint8";
    case DType::kInt8: return "int8";
    case DType::kInt32: return "int32";
    case DType::kInt64: return "int64";
    case DType::kBool: return "bool";
    case DType::kUnknown: break;
  }
  return "unknown";
}

absl::StatusOr<DType> ParseDType(absl::string_view text) {
  int flag;
  const bool is_number = absl::SimpleAtoi(text, &flag);
  for (DType type : kAllDTypes) {
    if (text == Name(type) || (is_number && flag == static_cast<int>(type))) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a dtype; want one of ",
                   absl::StrJoin(kAllDTypes, ", ", [](std::string* out, DType t) { absl::StrAppend(out, Name(t)); })));
}

}  // namespace gluond
