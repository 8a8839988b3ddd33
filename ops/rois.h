// Regions of interest, as ROIPooling and _contrib_ROIAlign take them: rows (image, left, top, right, bottom).

#ifndef OPS_ROIS_H_
#define OPS_ROIS_H_

#include "ops/operator.h"
#include "ops/kernel/index.h"
#include "ops/kernel/stage.h"
#include "ops/window.h"

namespace gluond::ops {

template <class P>
void PooledSizeField(Schema<P>& s) {
  s.Field("pooled_size", &P::pooled_size).template Elements<int64_t>(1, kMaxSpatial)
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
  return absl::OutOfRangeError(absl::StrCat("row ", bad, " of input 1 'rois' is of image ", index,
                                            ", expected less than the ", images, " images of 'data'; negative: padding"));
}

// The shapes of the two inputs, so far as they are known: data of rank 4, and rois.
inline absl::Status AssignRois(ShapeVector* in) {
  SHAPE_ASSIGN_CHECK(in, 0, Shape::OfRank(4));
  SHAPE_ASSIGN_CHECK(in, 1, Shape({Shape::kUnknown, 5}));
  return absl::OkStatus();
}

}  // namespace gluond::ops

#endif  // OPS_ROIS_H_
