// DidYouMean: the names that somebody may have meant by a word that is none of them.

#ifndef GLUOND_CLIENT_CLI_NEAREST_H_
#define GLUOND_CLIENT_CLI_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gluond::cli {

// " (did you mean 'train'?)", or nothing where no name is near.
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& names);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_NEAREST_H_
