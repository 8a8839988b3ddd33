// Regions of interest, as ROIPooling and _contrib_ROIAlign take them: rows (image, left, top, right, bottom).

#ifndef OPS_ROIS_H_
#define OPS_ROIS_H_

#include "ops/kernel/index.h"
#include "ops/kernel/launch.h"
#include "ops/kernel/stage.h"
#include "ops/operator.h"
#include "ops/window.h"

namespace gluond::ops {

template <class P>
void PooledSizeField(Schema<P>& s) {
  s.Field("pooled_size", &P::pooled_size)
      .template Elements<int64_t>(1, kMaxSpatial)
      .Check([](const std::vector<int64_t>& size) { return size.size() == 2; }, "want two: height and width")
      .Describe("Height and width of the result of each region.");
}

struct ImageOfRoi {
  In<int64_t> rois;
  int64_t* image;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t at = rois[i * 5];
    image[i] = at < 0 ? -1 : at;
  }
};

// The image of each region, or -1 for a region that is padding: its image is negative. OUT_OF_RANGE: there is no such
// image. On a GPU this waits for the stream.
template <class D>
absl::StatusOr<const int64_t*> ImagesOfRois(const OpContext& ctx, const TBlob& rois, int64_t images) {
  const int64_t n = rois.shape[0];
  ASSIGN_OR_RETURN(int64_t* const image, Space<int64_t>(ctx, n));
  RETURN_IF_ERROR(ForEach<D>(ctx, n, ImageOfRoi{In<int64_t>(rois), image}));
  const TBlob found = VectorOf(ctx, image, n);
  ASSIGN_OR_RETURN(const int64_t bad, FirstOutside<D>(ctx, found, -1, images));
  if (bad < 0) return image;
  ASSIGN_OR_RETURN(const int64_t index, IndexAt<D>(ctx, found, bad));
  return absl::OutOfRangeError(absl::StrCat("row ", bad, " of input 1 'rois' is of image ", index, ", expected less than the ",
                                            images, " images of 'data'; negative: padding"));
}

// How the gradient of images by `count` regions is added up. Regions go in pieces, so that a GPU has enough to do at
// once: each piece has sums of its own for all `planes` of `n` elements. Pieces depend on the shapes alone, and so do
// the results' bits.
struct RoiPieces {
  int64_t planes, n, count, pieces;

  RoiPieces(int64_t planes, int64_t n, int64_t count) : planes(planes), n(n), count(count) {
    constexpr int64_t kBusy = 1024, kLeastRegions = 16, kMostSums = int64_t{1} << 22;
    const int64_t whole = std::max<int64_t>(1, planes * n);
    pieces = std::min({kBusy / std::max<int64_t>(1, planes), count / kLeastRegions, kMostSums / whole});
    pieces = std::max<int64_t>(1, pieces);
  }
  // The first region of a piece.
  HOST_DEVICE int64_t Begin(int64_t piece) const { return count * piece / pieces; }
};

template <class C>
struct SumPieces {
  int64_t size, pieces;
  const C* sums;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const {
    C sum = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) sum += sums[piece * size + i];
    dx.Set(i, sum);
  }
};

template <class C, class Add>
struct AddPiece {
  RoiPieces p;
  C* sums;
  Add add;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t piece = i / p.planes;
    add(i % p.planes, p.Begin(piece), p.Begin(piece + 1), sums + i * p.n);
  }
};

// dx = the sums of add(plane, first region, end of regions, sums of the plane), which are those of C, whatever dx holds.
// `work`: about as many additions are one region's in one plane.
template <class D, class C, class Add>
absl::Status AddRegions(const OpContext& ctx, const RoiPieces& p, int64_t work, const Add& add, OpReqType req, const TBlob& dx) {
  const int64_t size = p.planes * p.n, parts = p.planes * p.pieces;
  ASSIGN_OR_RETURN(C* const sums, Space<C>(ctx, p.pieces * size));
  RETURN_IF_ERROR(ZeroBytes(D(), ctx, VectorOf(ctx, sums, p.pieces * size)));
  RETURN_IF_ERROR(
      ForEach<D>(ctx, parts, AddPiece<C, Add>{p, sums, add}, std::max<int64_t>(1, kGrain / (p.count / p.pieces * work + 1))));
  return ForEach<D>(ctx, size, SumPieces<C>{size, p.pieces, sums, Out<C>(dx, req)});
}

// The shapes of the two inputs, so far as they are known: data of rank 4, and rois.
inline absl::Status AssignRois(ShapeVector* in) {
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(4));
  SHAPE_ASSIGN_CHECK(in, 1, Shape({Shape::kUnknown, 5}));
  return absl::OkStatus();
}

}  // namespace gluond::ops

#endif  // OPS_ROIS_H_
