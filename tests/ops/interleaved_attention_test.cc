// _contrib_interleaved_matmul_selfatt_qk and _valatt against MXNet 1.9.1, and the gradients of their gradients.

#include "tests/ops/op_case.h"

namespace gluond::testing::interleaved_attention {
namespace {

const Numbers kParts = {{3, 2, 12},
                        {-0.6875, 0.25,    -1.4375, 0.9375,  1,      -0.3125, 0.6875,  0.875,   -1.3125, -2,      -1,     2.125,
                         -2.0625, -1.0625, 0.5,     -0.125,  0.75,   1.1875,  -0.75,   0.3125,  -0.625,  -1.9375, 0.5625, -1.6875,
                         -1.625,  -2.1875, -1.1875, -1.5,    0.375,  1.0625,  1.3125,  -2.125,  1.625,   1.5,     -1.75,  0.4375,
                         1.75,    1.5625,  -0.4375, 0.1875,  2.0625, 2.1875,  -1.8125, -0.375,  1.125,   2,       -0.5,   1.25,
                         -1.125,  1.6875,  1.8125,  -0.1875, 1.875,  -2.25,   0.125,   0.8125,  -0.5625, 0.625,   -0.25,  1.4375,
                         -0.0625, 1.9375,  -0.8125, 0,       -1.375, -1.875,  -0.875,  -1.5625, 0.0625,  -1.25,   1.375,  -0.9375}};
const Numbers kAttention = {{4, 3, 3},
                            {-0.5625, -0.0625, 0.0625, 0.25,  0.3125, -0.75,  0.5625,  -0.625, 1.0625, -0.25,   -0.6875, 0.8125,
                             -1.0625, -0.3125, 0.4375, 0.375, 0.75,   0.125,  -0.9375, 0.1875, 0.625,  -0.4375, -1.125,  -0.125,
                             -0.8125, 0,       1,      -0.5,  0.5,    -0.875, -0.1875, 0.6875, 0.9375, 0.875,   -0.375,  -1}};

OP_CASES(
    InterleavedAttention,
    {
        OpCase{"Scores",
               "_contrib_interleaved_matmul_selfatt_qk",
               {kParts},
               {{"heads", "2"}},
               {{{4, 3, 3},
                 {0.864548504, 0.312121361, -0.914266944, 0.201635912,   3.68468928,   -1.79262614,  2.26218915,   -0.845213532,
                  -1.66556787, -1.87549019, 1.71804845,   0.113247566,   1.78710186,   -0.745776653, -1.46116984,  -1.26505816,
                  1.00541747,  0.309359223, -0.635291219, 0.497184455,   1.18495631,   0.480611622,  -0.334218442, -1.00541747,
                  -0.19334951, 0.276213586, 0.035907764,  -0.0966747552, -0.154679611, -0.309359223, 1.31477666,   -1.97216499,
                  0.251354367, 2.52735424,  -2.90576696,  1.34239805}}}}
            .TwiceDifferentiable(),
        OpCase{
            "ScoresOfOneHead",
            "_contrib_interleaved_matmul_selfatt_qk",
            {kParts},
            {{"heads", "1"}},
            {{{2, 3, 3},
              {-0.466796875, -1.93554688, -0.634765625, -1.53515625, -0.65234375, 0.25390625, -0.28515625, 2.07421875, -2.91601562,
               -1.61132812, -3.71875, 2.29296875, 1.77734375, 3.875, -2.62304688, 1.43164062, 2.79101562, -1.41796875}}}}
            .TwiceDifferentiable(),
        OpCase{"Values",
               "_contrib_interleaved_matmul_selfatt_valatt",
               {kParts, kAttention},
               {{"heads", "2"}},
               {{{3, 2, 4}, {-0.46875,   -0.03125,    1.25,     0.3359375, -1.17578125, -1.875,      -1.734375,  2.2890625,
                             -1.0390625, 1.94140625,  1.5,      -1.765625, -2.4765625,  -2.74609375, 0.83984375, 0.296875,
                             2.3203125,  -3.23046875, -1.71875, 1.3046875, -1.984375,   -2.83984375, -0.6953125, -1.0078125}}}}
            .TwiceDifferentiable(),
        {"ScoresOfNoSamples", "_contrib_interleaved_matmul_selfatt_qk", {{{3, 0, 12}, {}}}, {{"heads", "2"}}, {{{0, 3, 3}, {}}}},
        {"ValuesOfNoSamples",
         "_contrib_interleaved_matmul_selfatt_valatt",
         {{{3, 0, 12}, {}}, {{0, 3, 3}, {}}},
         {{"heads", "2"}},
         {{{3, 0, 4}, {}}}},
        {"ScoresOfNoSize",
         "_contrib_interleaved_matmul_selfatt_qk",
         {{{2, 1, 0}, {}}},
         {{"heads", "2"}},
         {{{2, 2, 2}, {0, 0, 0, 0, 0, 0, 0, 0}}}},
        OpCase{"ScoresOfOneElement",
               "_contrib_interleaved_matmul_selfatt_qk",
               {{{1, 1, 3}, {2, 3, 4}}},
               {{"heads", "1"}},
               {{{1, 1, 1}, {6}}}}
            .TwiceDifferentiable(),
    });

// INVALID_ARGUMENT, with a message that has `part`.
void ExpectRefused(const std::string& part, const std::string& op, const std::vector<Numbers>& x, const AttrDict& attrs = {}) {
  const absl::Status status = ErrorOf(op, x, attrs);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << op << ": " << status;
  EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
}

TEST(InterleavedAttention, RefusesWhatDoesNotFit) {
  const std::string scores = "_contrib_interleaved_matmul_selfatt_qk", values = "_contrib_interleaved_matmul_selfatt_valatt";
  ExpectRefused("[3,2,12], expected a multiple of 9", scores, {kParts}, {{"heads", "3"}});
  ExpectRefused("heads", scores, {kParts}, {{"heads", "0"}});
  ExpectRefused("[2]", scores, {{{2}, {0, 0}}}, {{"heads", "1"}});
  ExpectRefused("[4,3,3]", values, {kParts, kAttention}, {{"heads", "1"}});
  ExpectRefused("2^48", scores, {{{1 << 25, 1, 0}, {}}}, {{"heads", "1"}});
}

}  // namespace
}  // namespace gluond::testing::interleaved_attention
