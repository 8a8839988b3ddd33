#include "client/cli/idx.h"

#include <zlib.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gluond/status_macros.h"

namespace gluond::cli {
namespace {

constexpr unsigned char kUnsignedBytes = 8;
constexpr int64_t kLargestFile = int64_t{1} << 31;  // A file's header cannot make us allocate more.

// gzip's reader, which reads plain files as they are.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {}

  bool is_open() const { return file_ != nullptr; }

  absl::Status Read(char* bytes, int64_t size) {
    const int got = gzread(file_.get(), bytes, static_cast<unsigned>(size));
    if (got == size) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(path_, ": damaged or truncated, expected ", size, " more bytes, got ", got));
  }

 private:
  const std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

std::string Existing(const std::string& path) { return std::filesystem::exists(path) ? path : path + ".gz"; }

}  // namespace

absl::StatusOr<client::Tensor> ReadIdx(const std::string& path) {
  const std::string found = Existing(path);
  Reader reader(found);
  if (!reader.is_open()) {
    return absl::NotFoundError(absl::StrCat(path,
                                            "[.gz]: cannot be read. Debian's package dataset-fashion-mnist brings such files to "
                                            "/usr/share/datasets/fashion-mnist; --data names their folder."));
  }
  unsigned char magic[4];
  GLUOND_RETURN_IF_ERROR(reader.Read(reinterpret_cast<char*>(magic), sizeof(magic)));
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedBytes || magic[3] == 0) {
    return absl::InvalidArgumentError(absl::StrCat(found, ": not an idx file of unsigned bytes"));
  }
  client::Shape shape;
  int64_t size = 1;
  for (int i = 0; i < magic[3]; ++i) {
    unsigned char d[4];
    GLUOND_RETURN_IF_ERROR(reader.Read(reinterpret_cast<char*>(d), sizeof(d)));
    shape.push_back(int64_t{d[0]} << 24 | int64_t{d[1]} << 16 | int64_t{d[2]} << 8 | int64_t{d[3]});
    if (__builtin_mul_overflow(size, shape.back(), &size) || size >= kLargestFile) {
      return absl::InvalidArgumentError(absl::StrCat(found, ": larger than 2 GiB: ", client::ToString(shape)));
    }
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  GLUOND_RETURN_IF_ERROR(reader.Read(bytes.data(), size));
  return client::Tensor::FromBytes(client::DType::kUint8, std::move(shape), std::move(bytes));
}

absl::StatusOr<LabelledImages> ReadLabelledImages(const std::string& folder, const std::string& part) {
  const std::string stem = absl::StrCat(folder, "/", part);
  GLUOND_ASSIGN_OR_RETURN(client::Tensor images, ReadIdx(stem + "-images-idx3-ubyte"));
  GLUOND_ASSIGN_OR_RETURN(client::Tensor labels, ReadIdx(stem + "-labels-idx1-ubyte"));
  const client::Shape& shape = images.shape();
  if (shape.size() != 3 || labels.shape() != client::Shape{shape[0]}) {
    return absl::InvalidArgumentError(absl::StrCat(stem, ": images of shape (n, height, width) and as many labels are needed, got ",
                                                   client::ToString(shape), " and ", client::ToString(labels.shape())));
  }
  GLUOND_ASSIGN_OR_RETURN(
      images, client::Tensor::FromBytes(client::DType::kUint8, {shape[0], 1, shape[1], shape[2]}, std::string(images.bytes())));
  return LabelledImages{std::move(images), std::move(labels)};
}

}  // namespace gluond::cli
