// Embedding: rows of a table.

#include "tests/ops/op_case.h"

namespace gluond::testing::embedding {
namespace {

const Numbers kTable = {{3, 2}, {1, 2, 3, 4, 5, 6}};
// 300 indices, most of them 0, and the rows that they take.
Numbers Many() {
  Numbers index = {{300}, {}};
  for (int i = 0; i < 300; ++i) index.values.push_back(i % 7 == 3 ? 2 : 0);
  return index;
}
Numbers ManyRows() {
  Numbers rows = {{300, 2}, {}};
  for (const double i : Many().values) rows.values.insert(rows.values.end(), {i == 2 ? 5.0 : 1.0, i == 2 ? 6.0 : 2.0});
  return rows;
}
const AttrDict kSize = {{"input_dim", "3"}, {"output_dim", "2"}};

OP_CASES(
    Embedding,
    {
        OpCase{"TakesRows", "Embedding", {{{2, 2}, {2, 0, 0, 1}}, kTable}, kSize, {{{2, 2, 2}, {5, 6, 1, 2, 1, 2, 3, 4}}}}
            .Indices({0})
            .TwiceDifferentiable(),
        OpCase{"ClipsWhatIsBeyond", "Embedding", {{{3}, {-7, 99, 1}}, kTable}, kSize, {{{3, 2}, {1, 2, 5, 6, 3, 4}}}}.Indices({0}),
        OpCase{"TakesOneRowOften", "Embedding", {Many(), kTable}, kSize, {ManyRows()}}.Indices({0}),
        OpCase{"OfOneNumber", "Embedding", {{Shape::Scalar(), {1}}, kTable}, kSize, {{{2}, {3, 4}}}}.Indices({0}),
        OpCase{"OfNothing", "Embedding", {{{0}, {}}, kTable}, kSize, {{{0, 2}, {}}}}.Indices({0}),
    });

TEST(Embedding, RefusesATableOfAnotherShape) {
  EXPECT_EQ(ErrorOf("Embedding", {{{1}, {0}}, kTable}, {{"input_dim", "4"}, {"output_dim", "2"}}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::testing::embedding
