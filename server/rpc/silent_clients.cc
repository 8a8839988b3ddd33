#include "server/rpc/silent_clients.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "server/identity/secret.h"
#include "server/rpc/find_in.h"

namespace gluond::server {
namespace {

constexpr uint64_t kRewound = uint64_t{1} << 63, kDurable = uint64_t{1} << 62, kInPart = uint64_t{1} << 61;
constexpr uint64_t kLast = kInPart - 1;

// Nobody finds a name with the hash of somebody else's.
uint64_t ShortHash(absl::string_view client) {
  uint64_t hash = 0;
  (void)absl::SimpleHexAtoi(HashOf(client).substr(0, 16), &hash);
  return hash;
}

}  // namespace

std::optional<SilentClients::Number> SilentClients::Find(const std::string& model, absl::string_view client) const {
  const OfModel* const of_model = FindIn(models_, model);
  if (of_model == nullptr) return std::nullopt;
  const uint64_t hash = ShortHash(client);
  for (const auto& [identity, numbers] : *of_model) {
    if (const uint64_t* const found = FindIn(numbers, hash)) {
      return Number{*found & kLast, (*found & kRewound) != 0, (*found & kDurable) != 0, (*found & kInPart) != 0};
    }
  }
  return std::nullopt;
}

bool SilentClients::HasRoom(absl::string_view identity) const {
  const size_t* const own = FindIn(counts_, identity);
  return size_ < most_ && (own == nullptr ? 0 : *own) < most_ - size_;
}

void SilentClients::Keep(const std::string& model, const std::string& identity, uint64_t hash, uint64_t number) {
  if (!models_[model][identity].insert_or_assign(hash, number).second) return;
  ++counts_[identity];
  ++size_;
}

bool SilentClients::Add(const std::string& model, absl::string_view client, absl::string_view identity, Number number,
                        bool within_share) {
  if (within_share ? !HasRoom(identity) : size_ >= most_) return false;
  const uint64_t flags =
      (number.is_rewound ? kRewound : 0) | (number.is_durable ? kDurable : 0) | (number.is_in_part ? kInPart : 0);
  Keep(model, std::string(identity), ShortHash(client), (number.last & kLast) | flags);
  return true;
}

void SilentClients::Forget(absl::string_view identity, size_t count) {
  size_ -= count;
  const auto own = counts_.find(identity);
  own->second -= count;
  if (own->second == 0) counts_.erase(own);
}

void SilentClients::Remove(const std::string& model, absl::string_view client) {
  const auto of_model = models_.find(model);
  if (of_model == models_.end()) return;
  const uint64_t hash = ShortHash(client);
  for (auto its = of_model->second.begin(); its != of_model->second.end(); ++its) {
    if (its->second.erase(hash) == 0) continue;
    Forget(its->first, 1);
    if (its->second.empty()) of_model->second.erase(its);
    break;
  }
  if (of_model->second.empty()) models_.erase(of_model);
}

void SilentClients::RemoveModel(const std::string& model) {
  const auto of_model = models_.find(model);
  if (of_model == models_.end()) return;
  for (const auto& [identity, numbers] : of_model->second) Forget(identity, numbers.size());
  models_.erase(of_model);
}

void SilentClients::ForgetDurable(const std::string& model) {
  OfModel* const of_model = FindIn(models_, model);
  if (of_model == nullptr) return;
  for (auto& [identity, numbers] : *of_model) {
    for (auto& [hash, last] : numbers) last &= ~kDurable;
  }
}

SilentClients::Saved SilentClients::Save(const std::string& model) const {
  Saved saved;
  const OfModel* const of_model = FindIn(models_, model);
  if (of_model == nullptr) return saved;
  for (const auto& [identity, numbers] : *of_model) {
    std::vector<std::pair<uint64_t, uint64_t>> pairs(numbers.begin(), numbers.end());
    std::sort(pairs.begin(), pairs.end());  // Equal clients are equal texts.
    std::string bytes;
    bytes.reserve(pairs.size() * 16);
    for (const auto& [hash, last] : pairs) {
      const uint64_t pair[2] = {hash, last & (kLast | kInPart)};
      bytes.append(reinterpret_cast<const char*>(pair), sizeof(pair));
    }
    saved[identity] = absl::Base64Escape(bytes);
  }
  return saved;
}

void SilentClients::Take(const std::string& model, const Saved& saved) {
  for (const auto& [identity, text] : saved) {
    std::string bytes;
    if (!absl::Base64Unescape(text, &bytes)) continue;
    for (size_t at = 0; at + 16 <= bytes.size() && HasRoom(identity); at += 16) {
      uint64_t pair[2];
      std::memcpy(pair, bytes.data() + at, sizeof(pair));
      Keep(model, identity, pair[0], (pair[1] & (kLast | kInPart)) | kRewound | kDurable);
    }
  }
}

}  // namespace gluond::server
