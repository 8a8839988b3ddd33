// The IDX format: two zeros, 8 for bytes, the rank; u32 sizes, big-endian; the bytes.

#include <errno.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gluond/data.h"
#include "gluond/status_macros.h"

namespace gluond::client::data {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 20;

// A file that gzip has packed, or not.
class PackedFile {
 public:
  explicit PackedFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rbe")), error_(errno) {}
  ~PackedFile() {
    if (file_ != nullptr) gzclose(file_);
  }
  PackedFile(const PackedFile&) = delete;

  absl::Status status() const {
    if (file_ != nullptr) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("ReadIdx: '", path_, "' cannot be read: ", std::strerror(error_)));
  }

  // At most so many bytes; fewer at the end. Memory grows with what the file has, whatever it announces.
  absl::StatusOr<std::string> Read(uint64_t most) {
    std::string bytes;
    while (bytes.size() < most) {
      const size_t before = bytes.size();
      const auto piece = static_cast<unsigned>(std::min<uint64_t>(kPiece, most - before));
      bytes.resize(before + piece);
      const int size = gzread(file_, &bytes[before], piece);
      int error = Z_OK;
      const char* const why = gzerror(file_, &error);
      if (size < 0 || (size == 0 && error == Z_BUF_ERROR)) {  // The latter: the file ends within.
        if (error == Z_ERRNO)
          return absl::NotFoundError(absl::StrCat("ReadIdx: '", path_, "' cannot be read: ", std::strerror(errno)));
        return absl::DataLossError(absl::StrCat("ReadIdx: '", path_, "' is damaged: ", why));
      }
      bytes.resize(before + static_cast<size_t>(size));
      if (size == 0) break;
    }
    return bytes;
  }

 private:
  const std::string path_;
  const gzFile file_;
  const int error_;
};

}  // namespace

absl::StatusOr<Tensor> ReadIdx(const std::string& path) {
  PackedFile file(path);
  GLUOND_RETURN_IF_ERROR(file.status());
  const auto broken = [&](const std::string& why) {
    return absl::DataLossError(absl::StrCat("ReadIdx: '", path, "' is no IDX file of bytes, or a damaged one: ", why));
  };
  GLUOND_ASSIGN_OR_RETURN(const std::string magic, file.Read(4));
  if (magic.size() != 4 || magic.compare(0, 3, std::string("\0\0\x08", 3)) != 0) return broken("it does not begin with 0, 0, 8");
  const auto rank = static_cast<unsigned char>(magic[3]);
  GLUOND_ASSIGN_OR_RETURN(const std::string sizes, file.Read(uint64_t{4} * rank));
  if (rank == 0 || sizes.size() != size_t{4} * rank)
    return broken(absl::StrCat("it has not the sizes of ", int{rank}, " dimensions"));
  Shape shape;
  uint64_t size = 1;
  for (size_t i = 0; i < rank; ++i) {
    uint32_t dimension = 0;
    for (size_t k = 0; k < 4; ++k) dimension = dimension << 8 | static_cast<unsigned char>(sizes[4 * i + k]);
    shape.push_back(dimension);
    if (__builtin_mul_overflow(size, dimension, &size) || size > INT64_MAX) {
      return broken(absl::StrCat("no array has the shape ", ToString(shape)));
    }
  }
  GLUOND_ASSIGN_OR_RETURN(std::string bytes, file.Read(size + 1));
  if (bytes.size() != size) {
    return broken(absl::StrCat(ToString(shape), " is announced, which has ", size, " bytes, but ",
                               bytes.size() > size ? "more" : absl::StrCat(bytes.size()), " follow"));
  }
  return Tensor::FromBytes(DType::kUint8, std::move(shape), std::move(bytes));
}

}  // namespace gluond::client::data
