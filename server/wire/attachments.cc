#include "server/wire/attachments.h"

#include <cstring>
#include <random>

#include "absl/strings/match.h"
#include "engine/store/crc32c.h"

namespace gluond::server {
namespace {

constexpr size_t kNonceSize = Attachments::kPlaceholderSize - sizeof(uint32_t);

const std::string& Nonce() {
  static const std::string& nonce = *new std::string([] {
    std::random_device random;
    std::string bytes(kNonceSize, '\0');
    for (size_t i = 0; i < kNonceSize; i += 4) {
      const uint32_t word = random();
      std::memcpy(&bytes[i], &word, 4);
    }
    return bytes;
  }());
  return nonce;
}

}  // namespace

Bytes::Bytes(const Slices& slices) {
  for (const grpc::Slice& slice : slices) {
    pieces_.push_back({reinterpret_cast<const char*>(slice.begin()), slice.size()});
    size_ += slice.size();
  }
}

void Bytes::CopyTo(void* to) const {
  char* out = static_cast<char*>(to);
  for (absl::string_view piece : pieces_) {
    if (!piece.empty()) std::memcpy(out, piece.data(), piece.size());
    out += piece.size();
  }
}

void Bytes::RemovePrefix(size_t size) {
  size_ -= size;
  for (absl::string_view& piece : pieces_) {
    const size_t dropped = std::min(size, piece.size());
    piece.remove_prefix(dropped);
    size -= dropped;
  }
}

uint32_t Bytes::Crc32c() const {
  uint32_t crc = 0;
  for (absl::string_view piece : pieces_) crc = gluond::Crc32c(piece, crc);
  return crc;
}

std::string Attachments::Add(Slices slices) {
  const uint32_t index = static_cast<uint32_t>(attached_.size());
  attached_.push_back(std::move(slices));
  std::string placeholder = Nonce();
  placeholder.append(reinterpret_cast<const char*>(&index), sizeof(index));
  return placeholder;
}

const Slices* Attachments::Find(absl::string_view field) const {
  if (field.size() != kPlaceholderSize || !absl::StartsWith(field, Nonce())) return nullptr;
  uint32_t index;
  std::memcpy(&index, field.data() + kNonceSize, sizeof(index));
  return index < attached_.size() ? &attached_[index] : nullptr;
}

Bytes Attachments::Get(absl::string_view field) const {
  const Slices* slices = Find(field);
  return slices == nullptr ? Bytes(field) : Bytes(*slices);
}

void Attachments::Summarize(std::string* text) const {
  for (size_t at = 0; (at = text->find(Nonce(), at)) != std::string::npos; at += kPlaceholderSize) {
    if (at + kPlaceholderSize > text->size()) return;
    const Slices* slices = Find({text->data() + at, kPlaceholderSize});
    if (slices == nullptr) continue;
    const Bytes bytes(*slices);
    const uint64_t size = bytes.size();
    const uint32_t crc = bytes.Crc32c();
    std::memcpy(&(*text)[at], &size, sizeof(size));
    std::memcpy(&(*text)[at + sizeof(size)], &crc, sizeof(crc));
    std::memset(&(*text)[at + sizeof(size) + sizeof(crc)], 0, kPlaceholderSize - sizeof(size) - sizeof(crc));
  }
}

}  // namespace gluond::server
