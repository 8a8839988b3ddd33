#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/gluon/metric_rows.h"
#include "gluond/any_metric.h"
#include "gluond/autograd.h"
#include "gluond/op.h"
#include "gluond/status_macros.h"

namespace gluond::client::metric {
namespace {

// Batches that wait until their shapes are known.
constexpr size_t kMostPending = 64;
// Rows of batches that make one array.
constexpr size_t kMostRows = 1024;

absl::StatusOr<double> NumberOf(const std::string& name, const Value& value) {
  double number = 0;
  if (const auto* const given = std::get_if<double>(&value.is)) return *given;
  if (const auto* const text = std::get_if<std::string>(&value.is)) {
    if (absl::SimpleAtod(*text, &number)) return number;
  }
  return absl::InvalidArgumentError(absl::StrCat("metric attribute '", name, "' is no number; give one"));
}

absl::StatusOr<Settings> Parse(const Formula& formula, const Attributes& attributes) {
  Settings settings;
  settings.axis = formula.axis;
  for (const auto& [name, value] : attributes) {
    const auto* const text = std::get_if<std::string>(&value.is);
    if (name == "average") {
      if (text == nullptr || (*text != "micro" && *text != "macro")) {
        return absl::InvalidArgumentError("metric attribute 'average' is neither 'macro' nor 'micro'");
      }
      settings.is_micro = *text == "micro";
      continue;
    }
    if (name == "ignore_label" && (value == Value() || (text != nullptr && *text == "None"))) continue;
    GLUOND_ASSIGN_OR_RETURN(const double number, NumberOf(name, value));
    if (name == "axis") {
      settings.axis = static_cast<int>(number);
    } else if (name == "top_k" && number >= 1) {
      settings.top_k = static_cast<int64_t>(number);
    } else if (name == "ignore_label") {
      settings.ignore_label = static_cast<int64_t>(number);
    } else if (name == "eps" && number >= 0) {
      settings.eps = number;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("metric '", formula.name, "' has no attribute '", name, "' of value ", number));
    }
  }
  return settings;
}

}  // namespace

struct Metric::State {
  struct Batch {
    NDArray label, prediction;
    Place place;
  };

  bool adds() const { return formula->adds || settings.is_micro; }

  // Asks the server for the batches' numbers, but for those of so many of the newest; waits for their shapes.
  void Fold(size_t but = 0) {
    const autograd::Pause pause;
    const auto end = pending.end() - static_cast<ptrdiff_t>(std::min(but, pending.size()));
    const std::vector<Batch> folded(std::make_move_iterator(pending.begin()), std::make_move_iterator(end));
    pending.erase(pending.begin(), end);
    for (const Batch& batch : folded) {
      if (!error.ok()) return;
      absl::StatusOr<NDArray> row = RowOf(batch);
      if (!row.ok()) {
        error = NDArray::Failed(row.status(), batch.place).local_error();
      } else if (adds()) {
        total = total.is_defined() ? total + *row : *row;
      } else {
        rows.push_back(*std::move(row));
        if (rows.size() == kMostRows) rows = {op::Concat(rows, {.dim = 0})};
      }
    }
  }

  absl::StatusOr<NDArray> RowOf(const Batch& batch) const {
    Shaped label = {batch.label, {}}, prediction = {batch.prediction, {}};
    GLUOND_ASSIGN_OR_RETURN(prediction.shape, prediction.array.shape(batch.place));
    if (label.array.is_defined()) {
      GLUOND_ASSIGN_OR_RETURN(label.shape, label.array.shape(batch.place));
    }
    return formula->row(settings, label.array.is_defined() ? &label : nullptr, prediction);
  }

  absl::StatusOr<double> Value(Place place) {
    Fold();
    GLUOND_RETURN_IF_ERROR(error);
    if (adds()) {
      if (!total.is_defined()) return 0;
      GLUOND_ASSIGN_OR_RETURN(const std::vector<double> row, total.Values<double>(place));
      return formula->value(row);
    }
    if (rows.empty()) return 0;
    const autograd::Pause pause;
    GLUOND_ASSIGN_OR_RETURN(const size_t width, Width(place));
    GLUOND_ASSIGN_OR_RETURN(const std::vector<double> all, op::Concat(rows, {.dim = 0}).Values<double>(place));
    double sum = 0;
    for (size_t at = 0; at < all.size(); at += width) {
      GLUOND_ASSIGN_OR_RETURN(const double value, formula->value(absl::MakeConstSpan(all).subspan(at, width)));
      sum += value;
    }
    return sum / static_cast<double>(batches);
  }

  // Numbers of one batch's row.
  absl::StatusOr<size_t> Width(Place place) const {
    size_t size = 0;
    for (const NDArray& each : rows) {
      GLUOND_ASSIGN_OR_RETURN(const Shape shape, each.shape(place));
      size += static_cast<size_t>(shape[0]);
    }
    return size / static_cast<size_t>(batches);
  }

  Component component;
  const Formula* formula = nullptr;
  Settings settings;
  absl::Status wrong;  // With the metric itself.
  absl::Status error;
  std::vector<Batch> pending;
  int64_t batches = 0;
  NDArray total;
  std::vector<NDArray> rows;
};

Metric::Metric(const std::string& name, const Attributes& attributes) : state_(std::make_shared<State>()) {
  state_->component = Named(name, attributes);
  state_->formula = FindFormula(name);
  if (state_->formula == nullptr) {
    state_->wrong = absl::InvalidArgumentError(absl::StrCat("there is no metric '", name, "'; there are: ", NamesOfFormulas()));
    return;
  }
  absl::StatusOr<Settings> settings = Parse(*state_->formula, attributes);
  state_->wrong = settings.status();
  if (settings.ok()) state_->settings = *settings;
}

void Metric::Update(const NDArray& label, const NDArray& prediction, Place place) {
  if (!state_->wrong.ok()) return;
  // As they are now.
  state_->pending.push_back({label.is_defined() ? label.Detach(place) : label, prediction.Detach(place), place});
  ++state_->batches;
  if (state_->pending.size() >= kMostPending) state_->Fold(kMostPending / 2);
}

absl::StatusOr<double> Metric::Get(Place place) const {
  if (!state_->wrong.ok()) return NDArray::Failed(state_->wrong, place).local_error();
  return state_->Value(place);
}

void Metric::Reset() {
  state_->error = absl::OkStatus();
  state_->pending.clear();
  state_->batches = 0;
  state_->total = NDArray();
  state_->rows.clear();
}

const Component& Metric::component() const { return state_->component; }

}  // namespace gluond::client::metric
