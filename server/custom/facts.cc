#include "server/custom/facts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/error_info.h"

namespace gluond::server {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr std::chrono::seconds kFailureLasts{5};

std::string OpKey(const std::string& scope, const std::string& op_type) { return absl::StrCat(scope.size(), ":", scope, op_type); }

CustomFacts::Key KeyFor(const CustomOperator& op, bool of_types, const std::string& arguments) {
  CustomFacts::Key key{OpKey(op.scope, op.op_type), absl::StrCat(of_types ? "type " : "shape ", arguments, ";"), of_types};
  for (const auto& [name, text] : op.attrs) absl::StrAppend(&key.rest, name.size(), ":", name, text.size(), ":", text);
  return key;
}

// Whether the operator's own rule has failed (FailureOf).
bool IsFailureOfClient(const absl::Status& status) {
  const std::optional<ErrorInfo> info = InfoOf(status);
  return info.has_value() && info->reason == reason::kOperatorFailed;
}

template <class Inference>
size_t Count(const Inference& inference) {
  return inference.arguments.size() + inference.outputs.size() + inference.auxiliary.size();
}

}  // namespace

CustomFacts::Key CustomFacts::KeyOf(const CustomOperator& op, const ShapeVector& arguments) {
  return KeyFor(op, /*of_types=*/false,
                absl::StrJoin(arguments, "", [](std::string* out, const Shape& shape) { out->append(shape.ToString()); }));
}

CustomFacts::Key CustomFacts::KeyOf(const CustomOperator& op, const TypeVector& arguments) {
  return KeyFor(op, /*of_types=*/true,
                absl::StrJoin(arguments, ",", [](std::string* out, DType type) { out->append(std::string(Name(type))); }));
}

absl::StatusOr<CustomFacts::FactPtr> CustomFacts::Ask(const Key& key, bool complete, const std::string& what) {
  const auto found = facts_.find(key);
  if (found == facts_.end()) return nullptr;
  const FactPtr fact = found->second;
  if (fact->question != nullptr) return ++fact->asking, fact->question->Pending(what);
  if (fact->status.ok()) return fact;
  // A rule that cannot tell yet will not tell the next time: one inference may come by here twice.
  if (!complete && IsFailureOfClient(fact->status)) return absl::UnknownError(fact->status.message());
  const bool is_fresh = Clock::now() - fact->answered < kFailureLasts;
  if (--fact->asking <= 0 || !is_fresh) Forget(found);
  if (is_fresh) return fact->status;
  return nullptr;
}

CustomFacts::FactPtr CustomFacts::Add(const Key& key) {
  if (bytes_ > kMostBytes) ForgetAnswered(facts_.begin(), facts_.end());
  auto fact = std::make_shared<Fact>();
  fact->question = std::make_shared<Question>();
  fact->asking = 1;
  facts_[key] = fact;
  bytes_ += fact->bytes = static_cast<int64_t>(key.rest.size() + 512);
  return fact;
}

std::shared_ptr<Question> CustomFacts::Answer(const Key& key, Fact answer) {
  const auto found = facts_.find(key);
  if (found == facts_.end()) return nullptr;
  const FactPtr fact = found->second;
  answer.question = nullptr;
  answer.asking = fact->asking;
  answer.answered = Clock::now();
  answer.bytes = fact->bytes + static_cast<int64_t>(answer.status.message().size() +
                                                    sizeof(Shape) * (Count(answer.shapes) + Count(answer.types)));
  bytes_ += answer.bytes - fact->bytes;
  std::swap(*fact, answer);
  return answer.question;
}

void CustomFacts::Forget(Facts::iterator fact) {
  bytes_ -= fact->second->bytes;
  facts_.erase(fact);
}

void CustomFacts::Forget(const std::string& scope, const std::string& op_type) {
  const std::string op = OpKey(scope, op_type);
  const auto begin = facts_.lower_bound({op, ""});
  ForgetAnswered(begin, std::find_if(begin, facts_.end(), [&op](const auto& fact) { return fact.first.op != op; }));
}

void CustomFacts::ForgetAnswered(Facts::iterator begin, Facts::iterator end) {
  while (begin != end) {
    const auto fact = begin++;
    if (fact->second->question == nullptr) Forget(fact);
  }
}

}  // namespace gluond::server
