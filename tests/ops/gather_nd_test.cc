// Indices along several axes: gather_nd, scatter_nd and others, and places of elements.

#include "tests/ops/op_case.h"

namespace gluond::testing::gather_nd {
namespace {

const Numbers kX = {{2, 3}, {1, 2, 3, 4, 5, 6}}, kCube = {{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};

OP_CASES(
    GatherNd,
    {
        OpCase{"Elements", "gather_nd", {kX, {{2, 3}, {0, 1, 1, 2, 0, 2}}}, {}, {{{3}, {3, 4, 6}}}}
            .Indices({1})
            .TwiceDifferentiable(),
        OpCase{"Rows", "gather_nd", {kX, {{1, 3}, {1, 0, 1}}}, {}, {{{3, 3}, {4, 5, 6, 1, 2, 3, 4, 5, 6}}}}
            .Indices({1})
            .TwiceDifferentiable(),
        OpCase{"RowsOfACube", "gather_nd", {kCube, {{2, 2}, {0, 1, 1, 0}}}, {}, {{{2, 2}, {3, 4, 5, 6}}}}.Indices({1}),
        OpCase{"InAShape", "gather_nd", {kX, {{2, 1, 2}, {0, 1, 0, 2}}}, {}, {{{1, 2}, {1, 6}}}}.Indices({1}),
        OpCase{"FromTheEnd", "gather_nd", {kX, {{2, 2}, {-1, -2, -1, -3}}}, {}, {{{2}, {6, 1}}}}.Indices({1}),
        OpCase{"Nothing", "gather_nd", {kX, {{2, 0}, {}}}, {}, {{{0}, {}}}}.Indices({1}),
        OpCase{
            "Scatter", "scatter_nd", {{{2}, {7, 8}}, {{2, 2}, {0, 1, 2, 0}}}, {{"shape", "(2, 3)"}}, {{{2, 3}, {0, 0, 7, 8, 0, 0}}}}
            .Indices({1})
            .TwiceDifferentiable(),
        OpCase{
            "ScatterRows", "scatter_nd", {{{1, 2}, {7, 8}}, {{1, 1}, {1}}}, {{"shape", "(3, 2)"}}, {{{3, 2}, {0, 0, 7, 8, 0, 0}}}}
            .Indices({1}),
        OpCase{"TheLastOfEqualIndices", "scatter_nd", {{{3}, {7, 8, 9}}, {{1, 3}, {1, 0, 1}}}, {{"shape", "(2,)"}}, {{{2}, {8, 9}}}}
            .Indices({1})
            .WithoutGradient(),
        OpCase{"ScatterNothing", "scatter_nd", {{{0}, {}}, {{1, 0}, {}}}, {{"shape", "(2,)"}}, {{{2}, {0, 0}}}}.Indices({1}),
        OpCase{"Set",
               "_scatter_set_nd",
               {kX, {{2}, {7, 8}}, {{2, 2}, {0, 1, 2, 0}}},
               {{"shape", "(2, 3)"}},
               {{{2, 3}, {1, 2, 7, 8, 5, 6}}}}
            .Indices({2})
            .TwiceDifferentiable(),
        OpCase{"SetRows",
               "_scatter_set_nd",
               {kX, {{1, 3}, {7, 8, 9}}, {{1, 1}, {-1}}},
               {{"shape", "(2, 3)"}},
               {{{2, 3}, {1, 2, 3, 7, 8, 9}}}}
            .Indices({2}),
    });

OP_CASES(OfRows,
         {
             OpCase{"BatchTake", "batch_take", {kX, {{2}, {1, 9}}}, {}, {{{2}, {2, 6}}}}.Indices({1}).TwiceDifferentiable(),
             OpCase{"FillElement", "fill_element_0index", {kX, {{2}, {7, 8}}, {{2}, {1, 2}}}, {}, {{{2, 3}, {1, 7, 3, 4, 5, 8}}}}
                 .Indices({2})
                 .TwiceDifferentiable(),
             OpCase{"FillElementNowhere", "fill_element_0index", {kX, {{2}, {7, 8}}, {{2}, {-1, 3}}}, {}, {kX}}
                 .Indices({2})
                 .WithoutGradient(),
             OpCase{"OnehotEncode", "_onehot_encode", {{{2}, {2, 0}}, kX}, {}, {{{2, 3}, {0, 0, 1, 1, 0, 0}}}}.Indices({0}),
         });

OP_CASES(Ravel,
         {
             {"Places", "_ravel_multi_index", {{{2, 3}, {3, 6, 6, 4, 5, 1}}}, {{"shape", "(7, 6)"}}, {{{3}, {22, 41, 37}}}},
             {"AnyFirstSize", "_ravel_multi_index", {{{2, 1, 1}, {3, 4}}}, {{"shape", "(-1, 6)"}}, {{{1, 1}, {22}}}},
             {"Indices", "_unravel_index", {{{3}, {22, 41, 37}}}, {{"shape", "(7, 6)"}}, {{{2, 3}, {3, 6, 6, 4, 5, 1}}}},
             {"IndicesInThreeAxes", "_unravel_index", {{{2}, {0, 23}}}, {{"shape", "(2, 3, 4)"}}, {{{3, 2}, {0, 1, 0, 2, 0, 3}}}},
             {"OfNothing", "_unravel_index", {{{0}, {}}}, {{"shape", "(7, 6)"}}, {{{2, 0}, {}}}},
         });

TEST(GatherNd, NamesTheIndexThatIsOutside) {
  const absl::Status status = ErrorOf("gather_nd", {kX, {{2, 2}, {0, 2, 0, 1}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_NE(status.message().find("column 1 of the indices, [2,2], names no part of [2,3]"), absl::string_view::npos) << status;
  EXPECT_EQ(ErrorOf("gather_nd", {kX, {{2, 1}, {0, -4}}}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ErrorOf("scatter_nd", {{{1}, {1}}, {{1, 1}, {5}}}, {{"shape", "(5,)"}}).code(), absl::StatusCode::kOutOfRange);
}

TEST(GatherNd, RefusesShapesThatDoNotFit) {
  constexpr auto kRefused = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(ErrorOf("gather_nd", {kX, {{3, 1}, {0, 0, 0}}}).code(), kRefused);
  EXPECT_EQ(ErrorOf("gather_nd", {kX, {{2}, {0, 0}}}).code(), kRefused);
  EXPECT_EQ(ErrorOf("scatter_nd", {{{2}, {1, 2}}, {{1, 1}, {0}}}, {{"shape", "(5,)"}}).code(), kRefused);
  EXPECT_EQ(ErrorOf("scatter_nd", {{{1}, {1}}, {{1, 1}, {0}}}, {{"shape", "(-1,)"}}).code(), kRefused);
  EXPECT_EQ(ErrorOf("_scatter_set_nd", {kX, {{1}, {1}}, {{2, 1}, {0, 0}}}, {{"shape", "(3, 2)"}}).code(), kRefused);
  EXPECT_EQ(ErrorOf("batch_take", {{{2}, {1, 2}}, {{2}, {0, 0}}}).code(), kRefused);
  EXPECT_EQ(ErrorOf("_ravel_multi_index", {kX}, {{"shape", "(2, 3, 4)"}}).code(), kRefused);
  EXPECT_EQ(ErrorOf("_unravel_index", {kX}, {{"shape", "(2, 0)"}}).code(), kRefused);
}

}  // namespace
}  // namespace gluond::testing::gather_nd
