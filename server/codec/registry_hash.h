// RegistryHash is the fingerprint of all operators as ListOperators describes them.

#ifndef SERVER_CODEC_REGISTRY_HASH_H_
#define SERVER_CODEC_REGISTRY_HASH_H_

#include <cstdint>
#include <string>

#include "gluond/v1/operator.pb.h"

namespace gluond::server {

// Sixteen hexadecimal digits, equal in all processes that have the same operators with the same arguments, defaults and
// descriptions. Computed at the first use, which is after all operators have been registered; takes some milliseconds then.
const std::string& RegistryHash();

// The fingerprint of these descriptions, one after the other.
class OperatorHash {
 public:
  void Add(const v1::Operator& op);
  std::string Digits() const;

 private:
  uint64_t state_ = 0xcbf29ce484222325;
};

}  // namespace gluond::server

#endif  // SERVER_CODEC_REGISTRY_HASH_H_
