// Reads the idx files of the MNIST family, plain or compressed with gzip.
//
// The format: two zero bytes, a type (8: unsigned bytes), the rank, then each dimension as four
// bytes, the most significant first, then the values.

#ifndef GLUOND_CLIENT_CLI_IDX_H_
#define GLUOND_CLIENT_CLI_IDX_H_

#include <string>

#include "absl/status/statusor.h"
#include "gluond/tensor.h"

namespace gluond::cli {

// The file's values as UINT8. NOT_FOUND: there is no such file, with or without ".gz".
// DATA_LOSS: damaged or truncated; INVALID_ARGUMENT: not an idx file of unsigned bytes.
absl::StatusOr<client::Tensor> ReadIdx(const std::string& path);

// Images of shape (n, 1, height, width) and their labels of shape (n).
struct LabelledImages {
  client::Tensor images;
  client::Tensor labels;

  int64_t count() const { return labels.size(); }
};

// `<folder>/<part>-images-idx3-ubyte` and `<folder>/<part>-labels-idx1-ubyte`, where part is
// "train" or "t10k". INVALID_ARGUMENT: their counts differ, or they are not images.
absl::StatusOr<LabelledImages> ReadLabelledImages(const std::string& folder, const std::string& part);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_IDX_H_
