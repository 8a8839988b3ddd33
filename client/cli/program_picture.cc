// ProgramPicture. The Python client draws the same (client/python/gluond/_remote/program.py).

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/program_table.h"
#include "client/cli/table.h"

namespace gluond::cli {
namespace {

// Columns, from left to right.
constexpr double kName = 46, kOperator = 216, kOutput = 404, kFlop = 540, kMoved = 708, kMemory = 900;
constexpr double kBar = 110, kArenaWidth = 420, kPictureWidth = 1340, kFirstRow = 128;

// A kind of operators. Words tell which they are, as parts of their names; a call of products needs none.
struct Kind {
  const char* name;
  const char* color;
  std::vector<const char*> words;
};
const std::vector<Kind>& Kinds() {
  static const std::vector<Kind>& kinds = *new std::vector<Kind>{
      {"products", "#2f6db3", {}},
      {"pooling", "#3a9a5b", {"pool", "upsampl", "resize"}},
      {"normalization", "#d9822b", {"norm", "lrn"}},
      {"softmax, loss", "#c2476b", {"softmax", "loss", "pick", "ctc"}},
      {"moves data", "#8b8f98", {"reshape", "transpose",   "concat", "slice", "copy",           "cast",        "blocked", "flatten",
                                 "stack",   "take",        "pad",    "swap",  "embedding",      "gather",      "split",   "repeat",
                                 "tile",    "expand_dims", "_zeros", "_ones", "broadcast_like", "broadcast_to"}},
      {"other", "#7a5fb0", {}},
  };
  return kinds;
}

const char* ColorOf(const client::ProgramStep& step) {
  if (step.has_product) return Kinds().front().color;
  const std::string op = absl::AsciiStrToLower(step.op);
  for (const Kind& kind : Kinds()) {
    const auto is_part = [&op](const char* word) { return absl::StrContains(op, word); };
    if (std::any_of(kind.words.begin(), kind.words.end(), is_part)) return kind.color;
  }
  return Kinds().back().color;
}

std::string InXml(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}});
}

std::string TextAt(double x, double y, const std::string& text, const std::string& more = "") {
  return absl::StrFormat("<text x='%g' y='%.1f'%s>%s</text>\n", x, y, more, InXml(text));
}

std::string BoxAt(double x, double y, double width, double height, const char* color, const std::string& title = "",
                  const std::string& more = "") {
  return absl::StrFormat("<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s'%s>%s</rect>\n", x, y, std::max(width, 0.5),
                         height, color, more, title.empty() ? "" : absl::StrCat("<title>", InXml(title), "</title>"));
}

class ProgramDrawing {
 public:
  explicit ProgramDrawing(const client::ExplainResponse& program) : program_(program) {
    for (const client::ProgramStep& step : program.steps) rows_.push_back(rows_.back() + (step.computes_constants ? 0 : 1));
    // Text is left out where nobody could read it.
    const int steps = rows_.back();
    row_ = steps <= 200 ? 18 : steps <= 800 ? 12 : 3;
    font_ = steps <= 200 ? 11 : steps <= 800 ? 9 : 0;
    size_ = absl::StrCat(" font-size='", font_, "'");
  }

  std::string Draw() {
    const double height = RowAt(static_cast<int>(program_.steps.size())) + 24;
    absl::StrAppendFormat(&svg_,
                          "<svg xmlns='http://www.w3.org/2000/svg' width='%g' height='%g' viewBox='0 0 %g %g' "
                          "font-family='sans-serif' font-size='11' fill='#222'>\n"
                          "<style>.head{font-weight:bold}.light{fill:#666}</style>\n"
                          "<rect width='100%%' height='100%%' fill='#fff'/>\n",
                          kPictureWidth, height, kPictureWidth, height);
    AddHead();
    AddArena();
    for (int i = 0; i < static_cast<int>(program_.steps.size()); ++i) {
      if (!program_.steps[i].computes_constants) AddStep(i);
    }
    for (const client::ProgramChain& chain : program_.chains) {
      Add(BoxAt(6, RowAt(chain.first) + 1, 4, RowAt(chain.end) - RowAt(chain.first) - 2, "#222",
                absl::StrCat(chain.rows, " rows in ", chain.chunks, " parts, each through all these steps")));
    }
    Add("</svg>\n");
    return std::move(svg_);
  }

 private:
  void Add(const std::string& part) { svg_ += part; }
  double RowAt(int step) const { return kFirstRow + rows_[static_cast<size_t>(step)] * row_; }
  double LineAt(int step) const { return RowAt(step) + row_ * 0.72; }

  void AddHead() {
    const std::vector<std::string> lines = ProgramHead(program_);
    Add(TextAt(16, 26, lines[0], " font-size='16' class='head'"));
    for (size_t i = 1; i < lines.size(); ++i) {
      Add(TextAt(16, 30 + 16 * static_cast<double>(i), lines[i], " font-size='12' class='light'"));
    }
    double x = 16;
    for (const Kind& kind : Kinds()) {
      Add(BoxAt(x, 76, 10, 10, kind.color) + TextAt(x + 15, 85, kind.name));
      x += 130;
    }
    for (const auto& [at, title] : {std::pair(kName, "step"), std::pair(kOperator, "operator"), std::pair(kOutput, "output"),
                                    std::pair(kFlop, "FLOP"), std::pair(kMoved, "bytes read, written")}) {
      Add(TextAt(at, kFirstRow - 12, title, " class='head'"));
    }
    for (const client::ProgramStep& step : program_.steps) {
      if (step.computes_constants) continue;
      most_flop_ = std::max(most_flop_, step.flop);
      most_moved_ = std::max(most_moved_, MovedBy(step));
    }
  }

  static double MovedBy(const client::ProgramStep& step) { return static_cast<double>(step.bytes_read + step.bytes_written); }

  void AddStep(int i) {
    const client::ProgramStep& step = program_.steps[i];
    const char* const color = ColorOf(step);
    const double bar = row_ * 0.6, top = RowAt(i) + (row_ - bar) / 2;
    if (rows_[static_cast<size_t>(i)] % 2 == 1) Add(BoxAt(16, RowAt(i), kMemory - 32, row_, "#f5f6f8"));
    if (font_ > 0) {
      Add(TextAt(kName - 8, LineAt(i), absl::StrCat(i), absl::StrCat(size_, " text-anchor='end' class='light'")));
      Add(TextAt(kName, LineAt(i), Shortened(step.name, 26), size_));
      Add(TextAt(kOperator + 14, LineAt(i), Shortened(step.op, 28), size_));
      if (!step.outputs.empty()) Add(TextAt(kOutput, LineAt(i), Shortened(ShapeText(step.outputs[0]), 22), size_));
    }
    Add(BoxAt(kOperator, top, 9, bar, color,
              absl::StrCat(i, " ", step.name, ": ", step.op, step.made_by.empty() ? "" : ", ", step.made_by)));
    const double flop = kBar * step.flop / most_flop_;
    Add(BoxAt(kFlop, top, flop, bar, color, absl::StrFormat("%s: %.0f FLOP", step.name, step.flop)));
    const double read = kBar * static_cast<double>(step.bytes_read) / most_moved_;
    const double written = kBar * static_cast<double>(step.bytes_written) / most_moved_;
    const std::string moved = absl::StrCat(step.name, ": ", step.bytes_read, " bytes read, ", step.bytes_written, " written");
    Add(BoxAt(kMoved, top, read, bar, "#7c8596", moved) + BoxAt(kMoved + read, top, written, bar, "#c3c9d4", moved));
    if (font_ > 0) {
      const std::string light = absl::StrCat(size_, " class='light'");
      Add(TextAt(kFlop + flop + 5, LineAt(i), absl::StrCat(step.has_product ? "" : "~", Amount(step.flop)), light));
      Add(TextAt(kMoved + read + written + 5, LineAt(i), Bytes(step.bytes_read + step.bytes_written), light));
    }
  }

  // The places in the arena, from left to right, while they are needed, from top to bottom.
  void AddArena() {
    const auto total = static_cast<double>(program_.totals.arena_bytes);
    const double height = rows_.back() * row_;
    Add(TextAt(kMemory, kFirstRow - 28, absl::StrCat("memory plan: an arena of ", Bytes(program_.totals.arena_bytes)),
               " class='head'"));
    Add(BoxAt(kMemory, kFirstRow, kArenaWidth, height, "#f5f6f8"));
    for (int i = 0; i <= 4; ++i) {
      const double x = kMemory + kArenaWidth * i / 4;
      const char* const anchor = i == 0 ? "start" : i == 4 ? "end" : "middle";
      Add(BoxAt(x, kFirstRow, 0.5, height, "#d5d9e0"));
      Add(TextAt(x, kFirstRow - 12, Bytes(program_.totals.arena_bytes / 4 * i),
                 absl::StrCat(" text-anchor='", anchor, "' class='light'")));
    }
    for (int i = 0; i < static_cast<int>(program_.steps.size()); ++i) {
      if (program_.steps[i].computes_constants) continue;
      for (const client::ProgramTensor& output : program_.steps[i].outputs) {
        if (output.place != client::ProgramTensor::Place::kArena || output.bytes == 0 || total == 0) continue;
        AddPlace(i, output, kArenaWidth / total);
      }
    }
  }

  void AddPlace(int step, const client::ProgramTensor& output, double width_of_byte) {
    const double x = kMemory + static_cast<double>(output.offset) * width_of_byte;
    const double width = static_cast<double>(output.bytes) * width_of_byte;
    Add(BoxAt(x, RowAt(step), width, RowAt(output.last_step + 1) - RowAt(step), ColorOf(program_.steps[step]),
              absl::StrCat(output.name, " ", ShapeText(output), ": ", output.bytes, " bytes at ", output.offset, ", steps ", step,
                           " to ", output.last_step),
              " fill-opacity='0.75' stroke='#fff' stroke-width='0.8'"));
    const auto letters = static_cast<int>((width - 6) / 6);
    if (font_ == 0 || letters < 8) return;
    Add(TextAt(x + 4, LineAt(step), Shortened(output.name, static_cast<size_t>(letters)), absl::StrCat(size_, " fill='#fff'")));
  }

  const client::ExplainResponse& program_;
  double row_ = 0;
  int font_ = 0;
  std::string size_;             // The font's.
  std::vector<int> rows_ = {0};  // By step, and after the last: the rows before it. Steps that compute constants have none.
  double most_flop_ = 1, most_moved_ = 1;
  std::string svg_;
};

}  // namespace

std::string ProgramPicture(const client::ExplainResponse& program) { return ProgramDrawing(program).Draw(); }

}  // namespace gluond::cli
