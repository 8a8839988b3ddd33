#include "server/wire/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

// zlib's own memory: a window of 32 KiB, and its tables.
constexpr int64_t kStateBytes = 48 << 10;
// The first piece, and the largest: each is twice the one before, so that a short message takes little and a long one is
// in few pieces.
constexpr int64_t kFirstPiece = 4 << 10, kLargestPiece = 1 << 20;

constexpr int kWindowBits = 15, kGzipHeader = 16;  // As zlib counts them.

absl::Status Damaged(absl::string_view why) {
  return Invalid("the compressed message is damaged: ", why, "; send it again, or without compression");
}

absl::Status NoMemory() { return absl::ResourceExhaustedError("zlib has no memory left; try again"); }

// Inflates a message, piece by piece.
class Inflater {
 public:
  Inflater(int64_t most_bytes, const absl::Status& too_large, const ChargeInflated& charge)
      : most_bytes_(most_bytes), too_large_(too_large), charge_(charge) {}
  ~Inflater() {
    if (begun_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  absl::Status Begin(Encoding encoding) {
    RETURN_IF_ERROR(charge_(kStateBytes));
    begun_ = inflateInit2(&stream_, kWindowBits + (encoding == Encoding::kGzip ? kGzipHeader : 0)) == Z_OK;
    return begun_ ? absl::OkStatus() : NoMemory();
  }

  // `input`: the next of the compressed bytes; not empty.
  absl::Status Add(absl::string_view input) {
    if (ended_) return Damaged("bytes follow its end");
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    do {
      if (stream_.avail_out == 0) RETURN_IF_ERROR(AddPiece());
      const int result = inflate(&stream_, Z_NO_FLUSH);
      ended_ = result == Z_STREAM_END;
      if (result == Z_MEM_ERROR) return NoMemory();
      if (result != Z_OK && !ended_ && result != Z_BUF_ERROR) {
        return Damaged(stream_.msg == nullptr ? "it wants a dictionary" : stream_.msg);
      }
      if (made() > most_bytes_) return too_large_;
    } while (!ended_ && stream_.avail_out == 0);
    return stream_.avail_in > 0 ? Damaged("bytes follow its end") : absl::OkStatus();
  }

  absl::StatusOr<Slices> Take() {
    if (!ended_) return Damaged("it ends too early");
    pieces_.back() = pieces_.back().sub(0, pieces_.back().size() - stream_.avail_out);
    return std::move(pieces_);
  }

 private:
  int64_t made() const { return static_cast<int64_t>(stream_.total_out); }

  // Requires: the pieces are full.
  absl::Status AddPiece() {
    const int64_t doubled =
        pieces_.empty() ? kFirstPiece : std::min(2 * static_cast<int64_t>(pieces_.back().size()), kLargestPiece);
    const int64_t room = std::min(doubled, most_bytes_ - made() + 1);  // One byte too many tells that there are too many.
    RETURN_IF_ERROR(charge_(room));
    stream_.next_out = const_cast<uint8_t*>(pieces_.emplace_back(static_cast<size_t>(room)).begin());
    stream_.avail_out = static_cast<uInt>(room);
    return absl::OkStatus();
  }

  const int64_t most_bytes_;
  const absl::Status& too_large_;
  const ChargeInflated& charge_;
  z_stream stream_ = {};
  bool begun_ = false, ended_ = false;
  Slices pieces_;  // The last one is being filled.
};

}  // namespace

absl::StatusOr<Slices> Inflate(const Slices& slices, Encoding encoding, int64_t most_bytes, const absl::Status& too_large,
                               const ChargeInflated& charge) {
  if (encoding == Encoding::kNone) return slices;
  Inflater inflater(most_bytes, too_large, charge);
  RETURN_IF_ERROR(inflater.Begin(encoding));
  const Bytes bytes(slices);
  for (const absl::string_view input : bytes.pieces()) {
    if (!input.empty()) RETURN_IF_ERROR(inflater.Add(input));
  }
  return inflater.Take();
}

}  // namespace gluond::server
