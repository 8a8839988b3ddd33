// LibraryCall: the attributes of a call as a library's functions have them. It lies in NodeAttrs::parsed.

#ifndef OPS_LIBRARY_LIBRARY_CALL_H_
#define OPS_LIBRARY_LIBRARY_CALL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/core/node_attrs.h"
#include "ops/library/gluond_op.h"

// The words in which a library's function tells its failure.
struct gluond_error {
  std::string text;
};

namespace gluond::ops {

// The status that a library's function returned. INTERNAL, too, for a number that is none of gluond_op.h's.
absl::Status ToStatus(int32_t code, const gluond_error& error);

class LibraryCall {
 public:
  LibraryCall(size_t num_attributes, void* user);
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  // The values of the attribute `place`, which the call keeps.
  gluond_value& value(size_t place) { return values_[place]; }
  void SetText(size_t place, std::string text);
  void SetIntegers(size_t place, std::vector<int64_t> integers);
  void SetNumbers(size_t place, std::vector<double> numbers);

  gluond_call& call() { return call_; }
  const gluond_call& call() const { return call_; }

 private:
  std::vector<gluond_value> values_;
  // By attribute.
  std::vector<std::string> texts_;
  std::vector<std::vector<int64_t>> integers_;
  std::vector<std::vector<double>> numbers_;
  gluond_call call_;
};

using LibraryCallPtr = std::shared_ptr<const LibraryCall>;

inline const gluond_call& CallOf(const NodeAttrs& attrs) { return attrs.param<LibraryCallPtr>()->call(); }

}  // namespace gluond::ops

#endif  // OPS_LIBRARY_LIBRARY_CALL_H_
