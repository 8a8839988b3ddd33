// CustomFacts: the answers of clients about the shapes and types of the operators that they compute, and the questions
// that are under way.
//
// * A client is asked once per signature: a question under way, or answered, is asked again only when it was forgotten.
// * A question under way is not forgotten, so that everybody who waits for its answer hears of it.
// * An answer that is a failure goes to the inferences that wait for the answer, and then is forgotten: the next inference
//   asks the client again. After kFailureLasts it is forgotten anyway, since some that waited may have given up.
//
// Not thread-safe: CustomHosts locks.

#ifndef SERVER_CUSTOM_FACTS_H_
#define SERVER_CUSTOM_FACTS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/status/statusor.h"
#include "engine/core/custom_host.h"
#include "engine/core/pending_fact.h"

namespace gluond::server {

class CustomFacts {
 public:
  struct Key {
    std::string op;    // Scope and name; facts of one `op` are forgotten together.
    std::string rest;  // Attributes and arguments.
    bool of_types = false;
    bool operator<(const Key& other) const { return std::tie(op, rest) < std::tie(other.op, other.rest); }
  };
  static Key KeyOf(const CustomOperator& op, const ShapeVector& arguments);
  static Key KeyOf(const CustomOperator& op, const TypeVector& arguments);

  using Clock = std::chrono::steady_clock;
  struct Fact {
    std::shared_ptr<Question> question;  // Null once it is answered.
    int asking = 0;                      // Inferences that have not come back for the answer.
    Clock::time_point answered;
    absl::Status status;
    CustomHost::Inference shapes;  // One of these.
    CustomHost::TypeInference types;
    int64_t bytes = 0;  // The memory that the fact takes, about.
  };
  using FactPtr = std::shared_ptr<Fact>;

  // The answer that one more inference asks for, where the client has answered; null: it has to be asked. Otherwise the
  // status that the inference fails with: a pending fact, UNKNOWN where the client's own rule has failed and the arguments
  // are not `complete`, or the client's answer. `what` is the question, for messages.
  absl::StatusOr<FactPtr> Ask(const Key& key, bool complete, const std::string& what);
  // Adds a fact that is being asked for. When there are very many, those that are answered are forgotten.
  FactPtr Add(const Key& key);
  // Takes the answer: a status that is not OK, shapes, or types. The caller calls Answered of the returned question
  // without the lock. Null: the question was answered before.
  std::shared_ptr<Question> Answer(const Key& key, Fact answer);
  // Forgets all answers about one operator.
  void Forget(const std::string& scope, const std::string& op_type);

 private:
  using Facts = std::map<Key, FactPtr>;
  void Forget(Facts::iterator fact);
  void ForgetAnswered(Facts::iterator begin, Facts::iterator end);

  Facts facts_;        // The facts of an `op` stand together.
  int64_t bytes_ = 0;  // The sum over all facts, about.
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_FACTS_H_
