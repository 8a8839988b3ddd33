#include "client/cli/program_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/table.h"

namespace gluond::cli {
namespace {

constexpr size_t kMostColumns = 120;
constexpr int kMostChanges = 10;             // Lines of a pass.
constexpr int64_t kLongOffset = 1000000000;  // From here on an offset is rounded.

std::string PlaceText(const client::ProgramTensor& tensor) {
  switch (tensor.place) {
    case client::ProgramTensor::Place::kArena:
      return tensor.offset < kLongOffset ? absl::StrCat(tensor.offset) : Bytes(tensor.offset);
    case client::ProgramTensor::Place::kCaller: return "outside";
    case client::ProgramTensor::Place::kConstant: return "kept";
    default: return "-";
  }
}

std::string StepRows(const client::ExplainResponse& program) {
  Table rows = {{"", "step", "operator", "output", "FLOP", "moved", "at", "chain", "pass"}};
  for (int i = 0; i < static_cast<int>(program.steps.size()); ++i) {
    const client::ProgramStep& step = program.steps[i];
    if (step.computes_constants) continue;
    const client::ProgramTensor output = step.outputs.empty() ? client::ProgramTensor() : step.outputs[0];
    rows.push_back({absl::StrCat(i), Shortened(step.name, 17), Shortened(step.op, 20), Shortened(ShapeText(output), 17),
                    absl::StrCat(step.has_product ? "" : "~", Amount(step.flop)), Bytes(step.bytes_read + step.bytes_written),
                    PlaceText(output), step.chain.has_value() ? absl::StrCat(*step.chain) : "", step.made_by});
  }
  return Aligned(rows);
}

std::string EffectText(const client::ProgramPass& pass) {
  switch (pass.turn) {
    case client::ProgramPass::Turn::kLeftOut: return "left out";
    case client::ProgramPass::Turn::kOfOtherPrograms: return "for other programs";
    default: return pass.effect.empty() ? "no change" : pass.effect;
  }
}

std::string OperatorText(const std::string& op, const char* none) { return op.empty() ? none : Shortened(op, 20); }

std::string PassRows(const client::ExplainResponse& program) {
  Table rows = {{"pass", "calls", "what it did"}};
  for (const client::ProgramPass& pass : program.passes) {
    rows.push_back({absl::StrCat(pass.name, pass.once ? ", once" : ""), absl::StrCat(pass.calls_before, " > ", pass.calls_after),
                    EffectText(pass)});
    const int shown = std::min(static_cast<int>(pass.changes.size()), kMostChanges);
    for (int i = 0; i < shown; ++i) {
      const client::ProgramPass::Change& change = pass.changes[i];
      rows.push_back({"", "",
                      absl::StrCat("  ", Shortened(change.node, 36), ": ", OperatorText(change.before, "new"), " > ",
                                   OperatorText(change.after, "gone"))});
    }
    if (pass.num_changes > shown) rows.push_back({"", "", absl::StrCat("  and ", pass.num_changes - shown, " more")});
  }
  return Aligned(rows);
}

}  // namespace

std::string ShapeText(const client::ProgramTensor& tensor) { return absl::StrCat("(", absl::StrJoin(tensor.shape, ","), ")"); }

std::string Shortened(const std::string& text, size_t most) {
  return text.size() <= most ? text : absl::StrCat(text.substr(0, (most - 2) / 2), "..", text.substr(text.size() - (most - 1) / 2));
}

std::string Amount(double number) {
  constexpr const char* kAmountUnits[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  for (; number >= 1000 && unit < 4; ++unit) number /= 1000;
  return absl::StrFormat(number < 1000 ? "%.3g%s" : "%.0f%s", number, kAmountUnits[unit]);
}

std::vector<std::string> ProgramHead(const client::ExplainResponse& program) {
  const client::ProgramTotals& totals = program.totals;
  const auto once =
      std::count_if(program.steps.begin(), program.steps.end(), [](const auto& step) { return step.computes_constants; });
  const std::string inputs = absl::StrJoin(program.inputs, ", ", [](std::string* out, const client::ProgramTensor& input) {
    absl::StrAppend(out, input.name, " ", ShapeText(input));
  });
  const std::string name = program.version == 0 ? program.name : absl::StrCat(program.name, ":", program.version);
  const char* const mode = program.mode == client::ExplainRequest::Mode::kTrainStep ? "training step" : "prediction";
  return {Shortened(absl::StrCat(name, " on ", program.device, ": ", mode, " of ", inputs), kMostColumns),
          absl::StrCat(static_cast<int64_t>(program.steps.size()) - once, " steps, ", Amount(totals.flop), " FLOP, ",
                       Bytes(totals.bytes_read), " read, ", Bytes(totals.bytes_written), " written",
                       once == 0 ? "" : absl::StrCat("; before, once, ", once, " steps that compute constants")),
          absl::StrCat("memory ", Bytes(totals.peak_bytes), ": arena ", Bytes(totals.arena_bytes), " (",
                       Bytes(totals.unshared_bytes), " unshared), variables ", Bytes(totals.variable_bytes), ", outputs ",
                       Bytes(totals.output_bytes), ", constants ", Bytes(totals.constant_bytes))};
}

std::string ProgramTable(const client::ExplainResponse& program) {
  return absl::StrCat(absl::StrJoin(ProgramHead(program), "\n"), "\n\n", StepRows(program), "\n", PassRows(program));
}

}  // namespace gluond::cli
