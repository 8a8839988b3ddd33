#include "server/codec/tensors_codec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

// Fewer elements are made or encoded, whatever they are, in less time than a change of threads may take.
constexpr int64_t kLargeFill = 1 << 12;
constexpr int64_t kLargeReply = 1 << 14;

bool IsLargeFill(const v1::Tensor& tensor) {
  if (!tensor.has_fill()) return false;
  const absl::StatusOr<Shape> shape = ShapeFromProto(tensor.shape(), /*known=*/true);
  return shape.ok() && shape->Size() > kLargeFill;
}

bool LooksAtElements(v1::Tensor::Encoding form, bool kept) {
  return form == v1::Tensor::TYPED || form == v1::Tensor::STATISTICS || (form == v1::Tensor::RAW && kept);
}

// `size_of` tells the number of an entry's elements.
template <class List, class SizeOf>
bool AreLarge(const List& list, SizeOf size_of) {
  int64_t elements = 0;
  for (const auto& entry : list) elements += size_of(entry);
  return elements > kLargeReply;
}

v1::Tensor::Encoding Resolve(v1::Tensor::Encoding asked, bool raw) {
  if (asked == v1::Tensor::AUTO || !v1::Tensor::Encoding_IsValid(asked)) return raw ? v1::Tensor::RAW : v1::Tensor::TYPED;
  return asked;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> DecodeTensors(const TensorList& list, const Attachments& attachments, Allocator& host) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < list.size(); ++i) {
    absl::StatusOr<Tensor> tensor = DecodeTensor(list[i], attachments, host);
    if (!tensor.ok()) {
      const std::string field = absl::StrCat("inputs[", i, "]");
      return InField(field, Annotate(tensor.status(), field));
    }
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<NamedTensors> DecodeTensors(absl::string_view kind, const TensorMap& map, const Attachments& attachments,
                                           Allocator& host) {
  NamedTensors tensors;
  for (const auto& [name, proto] : map) {
    absl::StatusOr<Tensor> tensor = DecodeTensor(proto, attachments, host);
    if (!tensor.ok()) {
      const std::string shown = Excerpt(name);
      return InField(absl::StrCat(kind, "s[\"", shown, "\"]"), Annotate(tensor.status(), absl::StrCat(kind, " '", shown, "'")));
    }
    tensors.push_back({name, *std::move(tensor)});
  }
  // Maps have no order; errors about several tensors should.
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return tensors;
}

v1::Tensor::Encoding ReplyForm(v1::Tensor::Encoding asked, const TensorList& request) {
  return Resolve(asked, std::any_of(request.begin(), request.end(), &IsRaw));
}

v1::Tensor::Encoding ReplyForm(v1::Tensor::Encoding asked, const TensorMap& request) {
  return Resolve(asked, std::any_of(request.begin(), request.end(), [](const auto& e) { return IsRaw(e.second); }));
}

v1::Tensor::Encoding ReplyForm(v1::Tensor::Encoding asked) { return Resolve(asked, false); }

absl::Status EncodeTensors(const std::vector<Tensor>& tensors, v1::Tensor::Encoding form, int64_t most_bytes, TensorList* list,
                           Attachments* attachments) {
  if (form == v1::Tensor::NONE) return absl::OkStatus();
  for (const Tensor& tensor : tensors) {
    RETURN_IF_ERROR(EncodeTensor(tensor, form, &most_bytes, list->Add(), attachments));
  }
  return absl::OkStatus();
}

absl::Status EncodeTensors(const NamedTensors& tensors, v1::Tensor::Encoding form, int64_t most_bytes, TensorMap* map,
                           Attachments* attachments) {
  if (form == v1::Tensor::NONE) return absl::OkStatus();
  for (const NamedTensor& named : tensors) {
    RETURN_IF_ERROR(Annotate(EncodeTensor(named.tensor, form, &most_bytes, &(*map)[named.name], attachments),
                             absl::StrCat("'", named.name, "'")));
  }
  return absl::OkStatus();
}

bool TakesLongToEncode(const std::vector<Tensor>& tensors, v1::Tensor::Encoding form, bool kept) {
  return LooksAtElements(form, kept) && AreLarge(tensors, [](const Tensor& tensor) { return tensor.Size(); });
}

bool TakesLongToEncode(const NamedTensors& tensors, v1::Tensor::Encoding form, bool kept) {
  return LooksAtElements(form, kept) && AreLarge(tensors, [](const auto& named) { return named.tensor.Size(); });
}

bool HasLargeFill(const TensorList& list) { return std::any_of(list.begin(), list.end(), &IsLargeFill); }

bool HasLargeFill(const TensorMap& map) {
  return std::any_of(map.begin(), map.end(), [](const auto& entry) { return IsLargeFill(entry.second); });
}

}  // namespace gluond::server
