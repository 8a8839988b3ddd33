// The text and the picture of a program that the server tells.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/program_table.h"
#include "client/cpp/type_messages.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace gluond::cli {
namespace {

v1::ExplainResponse ToyProgram() {
  v1::ExplainResponse program;
  const auto status = google::protobuf::util::JsonStringToMessage(
      R"({"name": "toy", "version": 3, "device": "cpu", "inputs": [{"name": "data", "shape": [2, 3]}],
      "steps": [
        {"name": "first", "op": "FullyConnected", "flop": 60, "has_product": true, "bytes_read": 104, "bytes_written": 40, "chain": 0,
         "made_by": "fold_affine",
         "outputs": [{"name": "first", "shape": [2, 5], "bytes": 40, "place": "ARENA", "offset": 64, "last_step": 1}]},
        {"name": "a<name>'that has far more than twenty letters", "op": "relu", "flop": 1234567, "chain": 0,
         "outputs": [{"shape": [2, 5], "place": "CONSTANT"}]},
        {"name": "done_once", "op": "sqrt", "flop": 1e12, "computes_constants": true},
        {"name": "nobody", "op": "BatchNorm"}],
      "passes": [{"name": "validate", "calls_before": 3, "calls_after": 3},
        {"name": "fold_affine", "calls_before": 3, "calls_after": 2, "effect": "1 calls gone", "num_changes": 12,
         "changes": [{"node": "n", "before": "BatchNorm"}, {"node": "m", "after": "relu"}, {"node": "c", "before": "Conv", "after": "Conv"}]},
        {"name": "simplify", "turn": "LEFT_OUT"}, {"name": "row_chains", "turn": "OF_OTHER_PROGRAMS"}],
      "chains": [{"first": 0, "end": 2, "rows": 64, "chunks": 8}],
      "totals": {"flop": 60, "bytes_read": 104, "arena_bytes": 128, "unshared_bytes": 2048, "peak_bytes": 1000}})",
      &program);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return program;
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ProgramTableTest, ShowsSumsStepsAndPasses) {
  const std::string text = ProgramTable(client::FromProto(ToyProgram()));
  for (const char* part : {
           "toy:3 on cpu: prediction of data (2,3)\n",
           "3 steps, 60 FLOP, 104 B read, 0 B written; before, once, 1 steps that compute constants\n",
           "arena 128 B (2.0 KiB unshared)",
           "0  first              FullyConnected  (2,5)   60      144 B  64    0      fold_affine\n",
           "1  a<name>.. letters  relu            (2,5)   ~1.23M  0 B    kept  0",
           "validate     3 > 3  no change\n",
           "n: BatchNorm > gone\n",
           "m: new > relu\n",
           "  and 9 more\n",
           "left out\n",
           "for other programs\n",
       }) {
    EXPECT_TRUE(Has(text, part)) << part << "\n" << text;
  }
  EXPECT_FALSE(Has(text, "done_once"));
}

TEST(ProgramTableTest, TellsWhichPassesRanOnce) {
  v1::ExplainResponse program = ToyProgram();
  program.mutable_passes(0)->set_once(true);
  EXPECT_TRUE(Has(ProgramTable(client::FromProto(program)), "validate, once  3 > 3  no change\n"));
}

TEST(ProgramTableTest, HasAtMost120Columns) {
  v1::ExplainResponse program = ToyProgram();
  v1::ProgramStep& step = *program.mutable_steps(0);
  step.set_name(std::string(90, 'n'));
  step.set_op(std::string(90, 'o'));
  step.set_made_by("keep_constants");
  for (int i = 0; i < 8; ++i) step.mutable_outputs(0)->add_shape(123456789);
  step.mutable_outputs(0)->set_offset(int64_t{1023} << 30);
  step.set_bytes_read(int64_t{1023} << 30);
  step.set_flop(1e15);
  const std::vector<std::string> lines = absl::StrSplit(ProgramTable(client::FromProto(program)), '\n');
  for (const std::string& line : lines) EXPECT_LE(line.size(), 120u) << line;
}

TEST(ProgramPictureTest, ShowsStepsAndTheirPlaces) {
  const std::string svg = ProgramPicture(client::FromProto(ToyProgram()));
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  EXPECT_TRUE(Has(svg, "a&lt;name&gt;&#39;that..")) << svg;
  EXPECT_TRUE(Has(svg, "first (2,5): 40 bytes at 64, steps 0 to 1"));
  EXPECT_TRUE(Has(svg, "64 rows in 8 parts"));
  EXPECT_FALSE(Has(svg, "done_once"));
  EXPECT_EQ(std::count(svg.begin(), svg.end(), '<'), std::count(svg.begin(), svg.end(), '>'));
}

TEST(ProgramPictureTest, ManyStepsAreDrawnWithoutText) {
  v1::ExplainResponse program = ToyProgram();
  for (int i = 0; i < 2000; ++i) *program.add_steps() = program.steps(0);
  EXPECT_TRUE(Has(ProgramPicture(client::FromProto(program)), "height='6161'"));
  program.clear_steps();
  EXPECT_TRUE(Has(ProgramPicture(client::FromProto(program)), "</svg>"));
}

}  // namespace
}  // namespace gluond::cli
