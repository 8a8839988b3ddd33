// SilentClients: the last numbers of clients that have not called for long, 16 bytes for each client and model: a hash
// and a number. So no call is applied twice, however long its client was away. The number of all is bounded, and an
// identity's share are as many as are left for all others. Not thread-safe.

#ifndef SERVER_RPC_SILENT_CLIENTS_H_
#define SERVER_RPC_SILENT_CLIENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

class SilentClients {
 public:
  explicit SilentClients(size_t most) : most_(most) {}

  struct Number {
    uint64_t last = 0;
    bool is_rewound = false;  // An earlier process may have applied more.
    bool is_durable = false;  // A crash cannot take it back.
    bool is_in_part = false;  // A crash has left a part of it.
  };
  std::optional<Number> Find(const std::string& model, absl::string_view client) const;
  // False: there is no room, or with `within_share`, none for the identity.
  bool Add(const std::string& model, absl::string_view client, absl::string_view identity, Number number, bool within_share = true);
  void Remove(const std::string& model, absl::string_view client);
  void RemoveModel(const std::string& model);
  // A crash takes back all numbers of the model.
  void ForgetDurable(const std::string& model);

  size_t size() const { return size_; }
  // By the models that some of them have numbers for.
  const auto& models() const { return models_; }

  // A model's clients as text for a checkpoint, by identity. Take ignores what Save has not made, and what has no room.
  using Saved = std::map<std::string, std::string>;
  Saved Save(const std::string& model) const;
  void Take(const std::string& model, const Saved& saved);

 private:
  // By the hash of the client's name. The number's highest three bits tell is_rewound, is_durable and is_in_part.
  using Numbers = absl::flat_hash_map<uint64_t, uint64_t>;
  using OfModel = std::map<std::string, Numbers, std::less<>>;  // By identity.

  bool HasRoom(absl::string_view identity) const;
  void Keep(const std::string& model, const std::string& identity, uint64_t hash, uint64_t number);
  void Forget(absl::string_view identity, size_t count);

  const size_t most_;
  std::map<std::string, OfModel> models_;
  std::map<std::string, size_t, std::less<>> counts_;  // By identity.
  size_t size_ = 0;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_SILENT_CLIENTS_H_
