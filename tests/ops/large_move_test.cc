// Large rows (op_case.h) of operators that move elements: shapes, axes, parts, and elements by indices. Where several
// elements come from one, the gradient of the one is a sum.

#include "tests/ops/op_case.h"

namespace gluond::testing::large_move {
namespace {

const Numbers kX = Shuffled({3, 701}, 0, 1), kCube = Shuffled({5, 23, 19}, 0, 1);

Numbers Repeated(const Shape& shape, std::vector<double> values) {
  Numbers x = {shape, {}};
  for (int64_t i = 0; i < shape.Size(); ++i) x.values.push_back(values[static_cast<size_t>(i) % values.size()]);
  return x;
}

LARGE_OP_CASES(Shape,
               {
                   OpCase{"Reshape", "Reshape", {kX}, {{"shape", "(701, 3)"}}}.OnlyFloats(),
                   OpCase{"ReshapeLike", "reshape_like", {kX, Shuffled({701, 3}, 0, 1)}}.OnlyFloats(),
                   OpCase{"Flatten", "Flatten", {kCube}}.OnlyFloats(),
                   OpCase{"ExpandDims", "expand_dims", {kX}, {{"axis", "1"}}}.OnlyFloats(),
                   OpCase{"Squeeze", "squeeze", {Shuffled({1, 3, 1, 701}, 0, 1)}}.OnlyFloats(),
                   OpCase{"Transpose", "transpose", {kX}}.OnlyFloats(),
                   OpCase{"TransposeOfACube", "transpose", {kCube}, {{"axes", "(2, 0, 1)"}}}.OnlyFloats(),
                   OpCase{"SwapAxis", "SwapAxis", {kCube}, {{"dim1", "0"}, {"dim2", "2"}}}.OnlyFloats(),
                   OpCase{"DepthToSpace", "depth_to_space", {Shuffled({2, 8, 13, 11}, 0, 1)}, {{"block_size", "2"}}}.OnlyFloats(),
                   OpCase{"SpaceToDepth", "space_to_depth", {Shuffled({2, 2, 26, 22}, 0, 1)}, {{"block_size", "2"}}}.OnlyFloats(),
                   OpCase{"Reverse", "reverse", {kX}, {{"axis", "(0, 1)"}}}.OnlyFloats(),
               });

LARGE_OP_CASES(
    Part,
    {
        OpCase{"Slice", "slice", {kX}, {{"begin", "(1, 2)"}, {"end", "(3, 700)"}, {"step", "(1, 3)"}}}.OnlyFloats(),
        OpCase{"SliceAxis", "slice_axis", {kX}, {{"axis", "1"}, {"begin", "3"}, {"end", "650"}}}.OnlyFloats(),
        OpCase{"SliceLike", "slice_like", {kX, Shuffled({2, 600}, 0, 1)}}.OnlyFloats(),
        OpCase{"SliceAssign", "_slice_assign", {kX, Shuffled({2, 600}, 0, 1)}, {{"begin", "(0, 1)"}, {"end", "(2, 601)"}}}
            .OnlyFloats(),
        OpCase{"SliceAssignScalar", "_slice_assign_scalar", {kX}, {{"begin", "(0, 1)"}, {"end", "(2, 601)"}, {"scalar", "9"}}}
            .OnlyFloats(),
        OpCase{"Concat", "Concat", {kX, Shuffled({3, 65}, 0, 1)}}.OnlyFloats(),
        OpCase{"Stack", "stack", {kX, kX}, {{"axis", "1"}}}.OnlyFloats(),
        OpCase{"RnnParamConcat", "_rnn_param_concat", {Shuffled({2503}, 0, 1), Shuffled({65}, 0, 1)}, {{"dim", "0"}}}.OnlyFloats(),
        OpCase{"SliceChannel", "SliceChannel", {Shuffled({3, 702}, 0, 1)}, {{"num_outputs", "2"}}}.OnlyFloats(),
        OpCase{"Split", "_split_v2", {kX}, {{"indices", "(0, 1, 300)"}}}.OnlyFloats(),
        OpCase{"PadConstant",
               "Pad",
               {Shuffled({1, 2, 37, 41}, 0, 1)},
               {{"mode", "constant"}, {"pad_width", "(0, 0, 0, 0, 2, 1, 3, 4)"}}}
            .OnlyFloats(),
        OpCase{"PadEdge", "Pad", {Shuffled({1, 2, 37, 41}, 0, 1)}, {{"mode", "edge"}, {"pad_width", "(0, 0, 0, 0, 2, 1, 65, 4)"}}}
            .OnlyFloats(),
        OpCase{"Diag", "diag", {Shuffled({47, 53}, 0, 1)}, {{"k", "1"}}}.OnlyFloats(),
    });

LARGE_OP_CASES(
    Repeat, {
                OpCase{"BroadcastTo", "broadcast_to", {Shuffled({2503, 1}, 0, 1)}, {{"shape", "(2503, 3)"}}}.OnlyFloats(),
                OpCase{"BroadcastLike", "broadcast_like", {{{1, 2}, {0.5, 2}}, Shuffled({2503, 2}, 0, 1)}}.OnlyFloats(),
                OpCase{"BroadcastAxis", "broadcast_axis", {Shuffled({2503, 1}, 0, 1)}, {{"axis", "1"}, {"size", "3"}}}.OnlyFloats(),
                OpCase{"Tile", "tile", {kX}, {{"reps", "(2, 3)"}}}.OnlyFloats(),
                OpCase{"Repeat", "repeat", {kX}, {{"repeats", "3"}, {"axis", "1"}}}.OnlyFloats(),
            });

LARGE_OP_CASES(
    Sequence,
    {
        OpCase{"Mask", "SequenceMask", {Shuffled({31, 3, 29}, 0, 1), {{3}, {1, 31, 17}}}, {{"use_sequence_length", "True"}}}
            .Indices({1})
            .OnlyFloats(),
        OpCase{"Reverse", "SequenceReverse", {Shuffled({31, 3, 29}, 0, 1), {{3}, {1, 31, 17}}}, {{"use_sequence_length", "True"}}}
            .Indices({1})
            .OnlyFloats(),
        OpCase{"Last", "SequenceLast", {Shuffled({31, 3, 29}, 0, 1), {{3}, {1, 31, 17}}}, {{"use_sequence_length", "True"}}}
            .Indices({1})
            .OnlyFloats(),
    });

// 4,099 indices of three rows.
LARGE_OP_CASES(
    Index,
    {
        OpCase{"Embedding",
               "Embedding",
               {Repeated({4099}, {0, 2, 2, 1}), {{3, 2}, {1, 2, 3, 4, 5, 6}}},
               {{"input_dim", "3"}, {"output_dim", "2"}}}
            .Indices({0})
            .OnlyFloats(),
        OpCase{"Take", "take", {{{3, 2}, {1, 2, 3, 4, 5, 6}}, Repeated({4099}, {0, 2, 2, 1})}}.Indices({1}).OnlyFloats(),
        OpCase{"TakeOfColumns", "take", {{{2, 3}, {1, 2, 3, 4, 5, 6}}, Repeated({4099}, {0, 2, 2, 1})}, {{"axis", "1"}}}
            .Indices({1})
            .OnlyFloats(),
        OpCase{"GatherNd", "gather_nd", {{{2, 3}, {1, 2, 3, 4, 5, 6}}, Repeated({2, 4099}, {0, 1, 1})}}.Indices({1}).OnlyFloats(),
        OpCase{"ScatterNd", "scatter_nd", {Shuffled({2503}, 0, 1), Shuffled({1, 2503}, 0, 3000)}, {{"shape", "(3001,)"}}}
            .Indices({1})
            .OnlyFloats(),
        OpCase{"Pick", "pick", {Shuffled({701, 3}, 0, 1), Repeated({701}, {0, 2, 1, 1})}}.Indices({1}).OnlyFloats(),
        OpCase{"BatchTake", "batch_take", {Shuffled({701, 3}, 0, 1), Repeated({701}, {0, 2, 1, 1})}}.Indices({1}).OnlyFloats(),
        OpCase{"OneHot", "one_hot", {Repeated({2503}, {0, 2, 1})}, {{"depth", "3"}}}.OnlyFloats(),
    });

}  // namespace
}  // namespace gluond::testing::large_move
