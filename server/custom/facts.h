// CustomFacts: what clients have said of the shapes and types of the operators that they compute, and what they are being
// asked. Once per signature. Not thread-safe: CustomHosts locks.

#ifndef SERVER_CUSTOM_FACTS_H_
#define SERVER_CUSTOM_FACTS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "engine/core/custom_host.h"
#include "engine/core/pending_fact.h"

namespace gluond::server {

class CustomFacts {
 public:
  struct Key {
    std::string op;    // Scope and name: all that is forgotten together.
    std::string rest;  // Attributes and arguments.
    bool of_types = false;
  };
  static Key KeyOf(const CustomOperator& op, const ShapeVector& arguments);
  static Key KeyOf(const CustomOperator& op, const TypeVector& arguments);

  using Clock = std::chrono::steady_clock;
  struct Fact {
    std::shared_ptr<Question> question;  // Null once it is answered.
    int asking = 0;                      // That wait for the answer, and have not come back for it.
    Clock::time_point answered;
    absl::Status status;
    CustomHost::Inference shapes;    // One of these.
    CustomHost::TypeInference types;
    int64_t bytes = 0;               // That it takes, about.
  };
  using FactPtr = std::shared_ptr<Fact>;

  // Null: nobody has asked.
  FactPtr Find(const Key& key) const;
  // A fact that is being asked for. When there are very many, those that are answered are forgotten.
  FactPtr Add(const Key& key);
  // The answer: a status that is not OK, shapes, or types. What is returned is to be told that it is Answered, without the
  // lock; null where it is already.
  std::shared_ptr<Question> Answer(const Key& key, Fact answer);
  void Forget(const Key& key);
  // All that is answered about one operator.
  void Forget(const std::string& scope, const std::string& op_type);

 private:
  using Facts = absl::flat_hash_map<std::string, FactPtr>;  // By Key::rest.
  void ForgetAnswered(Facts* facts);

  absl::flat_hash_map<std::string, Facts> by_op_;
  int64_t bytes_ = 0;  // Of all facts, about.
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_FACTS_H_
