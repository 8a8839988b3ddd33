// Names of callers, as the world has them: a service account of Kubernetes (system:serviceaccount:ml:trainer), a SPIFFE ID
// (spiffe://acme/trainer), an e-mail address, an issuer's `auth0|5f7c`. A name is any UTF-8 without control characters, of 1 to
// 256 bytes, and stands for nothing but itself.
//
// Inside, names are joined: the name of a tenant stands before the name of a caller, and the name of a caller before the name of
// a client. So each name is a segment there, like the segments of a URI's path (RFC 3986): letters, digits and - . _ ~ : @ stand
// for themselves, other bytes are percent-encoded, '/' above all. Two names never meet in one joined name. A name of letters,
// digits, '-', '_' and '.' is the same inside and outside.
//
//   CallersName("acme/ann")          "acme/ann": ann of the tenant acme
//   CallersName("spiffe://acme/ann") "spiffe:%2F%2Facme%2Fann": nobody's tenant, as no tenant can be called `spiffe:`

#ifndef SERVER_IDENTITY_NAMES_H_
#define SERVER_IDENTITY_NAMES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

inline constexpr size_t kLongestName = 256;

// Whether a tenant may be called so: by up to 64 letters, digits, '-', '_' and '.'. INVALID_ARGUMENT tells how. A tenant's name
// is the first part of its things' names, and of their files'.
absl::Status CheckTenantName(absl::string_view name);

// The name inside of a caller who is said to be `said`: NAME, or TENANT/NAME, where the tenant's name is all before the first '/'
// and passes CheckTenantName. INVALID_ARGUMENT tells what a name is, and does not repeat this one.
absl::StatusOr<std::string> CallersName(absl::string_view said);

// The same of a word of a file, in which bytes may be percent-encoded that stand for something else there, as blanks do.
absl::StatusOr<std::string> CallersNameInFile(absl::string_view word);

// A word of such a file with the bytes that it means. INVALID_ARGUMENT: a '%' has no two hexadecimal digits after it.
absl::StatusOr<std::string> DecodeWord(absl::string_view word);

// The name inside of what a client of a caller's calls itself. `caller`: his name inside.
std::string ClientOf(absl::string_view caller, absl::string_view client_id);

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_NAMES_H_
