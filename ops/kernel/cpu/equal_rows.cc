#include "ops/kernel/equal_rows.h"

#include "ops/kernel/cpu/onednn.h"

namespace gluond::ops {

bool HasEqualRows() { return HasAvx512(); }

}  // namespace gluond::ops
