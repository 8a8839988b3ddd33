// PassSet: the optional passes (pipeline.h) that a compilation leaves out, to find a fault of one, or to go around it.

#ifndef ENGINE_COMPILE_PASS_SET_H_
#define ENGINE_COMPILE_PASS_SET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond {

class PassSet {
 public:
  // "-fold_affine,-row_chains"; empty: none is left out. INVALID_ARGUMENT: not such a text, or there is no optional pass of
  // that name.
  static absl::StatusOr<PassSet> Parse(absl::string_view text);

  bool Contains(absl::string_view pass) const;
  // As Parse takes it.
  std::string ToString() const;
  friend bool operator==(const PassSet& a, const PassSet& b) { return a.bits_ == b.bits_; }

 private:
  uint32_t bits_ = 0;  // By place in the list of passes.
};

// The passes that this process leaves out: those of GLUOND_PASSES, until others are set. To be set before anything is compiled.
PassSet LeftOutPasses();
void SetLeftOutPasses(PassSet left_out);

}  // namespace gluond

#endif  // ENGINE_COMPILE_PASS_SET_H_
