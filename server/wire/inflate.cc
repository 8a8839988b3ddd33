#include "server/wire/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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
  return absl::InvalidArgumentError(
      absl::StrCat("the compressed message is damaged: ", why, "; send it again, or without compression"));
}

class Inflater {
 public:
  explicit Inflater(Encoding encoding)
      : ready_(inflateInit2(&stream_, kWindowBits + (encoding == Encoding::kGzip ? kGzipHeader : 0)) == Z_OK) {}
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool ready() const { return ready_; }
  bool ended() const { return ended_; }
  bool has_input() const { return stream_.avail_in > 0; }
  void Give(absl::string_view input) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
  }
  // Fills as much of `room` as the input gives; returns how much.
  absl::StatusOr<int64_t> Fill(uint8_t* room, int64_t bytes) {
    stream_.next_out = room;
    stream_.avail_out = static_cast<uInt>(bytes);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    ended_ = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) return absl::ResourceExhaustedError("zlib has no memory left; try again");
    if (result != Z_OK && !ended_ && result != Z_BUF_ERROR) {
      return Damaged(stream_.msg == nullptr ? "it wants a dictionary" : stream_.msg);
    }
    return bytes - static_cast<int64_t>(stream_.avail_out);
  }

 private:
  z_stream stream_ = {};
  const bool ready_;
  bool ended_ = false;
};

// The pieces that are made, of which the last one is filled.
class Pieces {
 public:
  Pieces(int64_t most_bytes, const absl::Status& too_large, const ChargeInflated& charge)
      : most_bytes_(most_bytes), too_large_(too_large), charge_(charge) {}

  absl::Status FillFrom(Inflater& inflater) {
    while (true) {
      if (room_ == filled_) RETURN_IF_ERROR(AddPiece());
      auto* const piece = const_cast<uint8_t*>(pieces_.back().begin());
      ASSIGN_OR_RETURN(const int64_t made, inflater.Fill(piece + filled_, room_ - filled_));
      filled_ += made;
      if (before_ + filled_ > most_bytes_) return too_large_;
      if (inflater.ended() || filled_ < room_) return absl::OkStatus();
    }
  }

  Slices Take() {
    if (!pieces_.empty()) {
      const grpc_slice whole = pieces_.back().c_slice();  // Holds a reference of its own.
      pieces_.back() = grpc::Slice(grpc_slice_sub(whole, 0, static_cast<size_t>(filled_)), grpc::Slice::STEAL_REF);
      grpc_slice_unref(whole);
    }
    return std::move(pieces_);
  }

 private:
  absl::Status AddPiece() {
    before_ += filled_;
    const int64_t doubled = room_ == 0 ? kFirstPiece : std::min(2 * room_, kLargestPiece);
    room_ = std::min(doubled, most_bytes_ - before_ + 1);  // One byte too many tells that there are too many.
    filled_ = 0;
    RETURN_IF_ERROR(charge_(room_));
    pieces_.emplace_back(static_cast<size_t>(room_));
    return absl::OkStatus();
  }

  const int64_t most_bytes_;
  const absl::Status& too_large_;
  const ChargeInflated& charge_;
  Slices pieces_;
  int64_t before_ = 0;             // Bytes in all pieces but the last.
  int64_t room_ = 0, filled_ = 0;  // Bytes of the last one.
};

}  // namespace

absl::StatusOr<Slices> Inflate(const Slices& slices, Encoding encoding, int64_t most_bytes, const absl::Status& too_large,
                               const ChargeInflated& charge) {
  if (encoding == Encoding::kNone) return slices;
  RETURN_IF_ERROR(charge(kStateBytes));
  Inflater inflater(encoding);
  if (!inflater.ready()) return absl::ResourceExhaustedError("zlib has no memory left; try again");
  Pieces pieces(most_bytes, too_large, charge);
  const Bytes bytes(slices);
  for (const absl::string_view input : bytes.pieces()) {
    if (inflater.ended() && !input.empty()) return Damaged("bytes follow its end");
    inflater.Give(input);
    if (!input.empty()) RETURN_IF_ERROR(pieces.FillFrom(inflater));
    if (inflater.has_input()) return Damaged("bytes follow its end");
  }
  if (!inflater.ended()) return Damaged("it ends too early");
  return pieces.Take();
}

}  // namespace gluond::server
