// The operators that this program has registered.

#ifndef GLUOND_CLIENT_CPP_CUSTOM_REGISTRY_H_
#define GLUOND_CLIENT_CPP_CUSTOM_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gluond/custom_op.h"
#include "gluond/v1/graph.pb.h"

namespace gluond::client {

struct RegisteredOp {
  std::string name;
  CustomOpClass kind;
  bool shared = false;
  uint64_t version = 0;  // Tells apart those registered under one name.
};
using RegisteredOpPtr = std::shared_ptr<const RegisteredOp>;

// Null: there is none.
RegisteredOpPtr FindRegistered(const std::string& name);
// The new registration, and the one that it replaces.
struct Registration {
  RegisteredOpPtr now, before;
};
Registration AddRegistered(const std::string& name, CustomOpClass kind, bool shared);
// Undoes it.
void TakeBack(const Registration& registration);

// The operator of a call with these attributes. An error of the prop's own: an exception, names that are none.
absl::StatusOr<std::unique_ptr<CustomOpProp>> MakeProp(const RegisteredOp& registered, const KeywordArguments& arguments);
absl::StatusOr<v1::CustomOperatorSpec> SpecOf(const RegisteredOp& registered, const CustomOpProp& prop);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_CUSTOM_REGISTRY_H_
