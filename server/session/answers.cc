#include "server/session/answers.h"

#include "engine/core/status_macros.h"
#include "server/codec/tensor_codec.h"
#include "server/rpc/grpc_status.h"
#include "server/session/replies.h"

namespace gluond::server {
namespace {

constexpr size_t kMostKept = 1000;  // Failures that the client has not been told of.

// The elements of `whole`, in its memory.
absl::StatusOr<Tensor> Part(const Tensor& whole, ElementRange range) {
  const auto size = static_cast<uint64_t>(whole.Size());
  if (range.begin >= range.end || range.end > size) {
    return Invalid("Fetch wants elements [", range.begin, ", ", range.end, ") of an array of shape ", whole.shape().ToString(),
                   ", which has ", size, "; ask for a part of these that is not empty");
  }
  const auto begin = static_cast<const char*>(whole.data()) - static_cast<const char*>(whole.buffer()->data()) +
                     static_cast<int64_t>(range.begin) * SizeOf(whole.dtype());
  return Tensor(whole.buffer(), static_cast<size_t>(begin), Shape{static_cast<int64_t>(range.end - range.begin)}, whole.dtype());
}

}  // namespace

void SessionAnswers::Remember(const FailurePtr& failure) {
  if (untold_.size() < kMostKept) untold_.push_back(failure);
}

void SessionAnswers::Note(const absl::Status& status, uint64_t number) {
  if (status.ok()) return;
  const auto failure = std::make_shared<Failure>(Failure{status, number});
  Remember(failure);
  noted_.push_back(failure);
  if (noted_.size() > kMostKept) noted_.erase(noted_.begin());
}

void SessionAnswers::Fail(const absl::Status& status, uint64_t number) {
  Fail(std::make_shared<Failure>(Failure{status, number}), number);
}

void SessionAnswers::Fail(const FailurePtr& failure, uint64_t number) {
  v1::Reply reply;
  TellNoted(&reply);
  Tell(failure, 0, &reply);
  Answer(std::move(reply), number);
}

void SessionAnswers::Await(Wanted wanted, uint64_t number, std::function<void(std::vector<Tensor>)> then,
                           std::function<void(absl::StatusCode)> failed) {
  When(std::move(wanted), [this, number, then = std::move(then), failed = std::move(failed)](const Wanted& wanted) {
    std::vector<Tensor> tensors;
    for (const ValuePtr& value : wanted.values) {
      if (value->failure() == nullptr) {
        tensors.push_back(value->tensor());
        continue;
      }
      if (failed != nullptr) failed(value->failure()->status.code());
      v1::Reply reply;
      TellFailures(wanted, &reply);
      return Answer(std::move(reply), number);
    }
    then(std::move(tensors));
  });
}

void SessionAnswers::Values(Wanted wanted, std::optional<ElementRange> range, uint64_t number) {
  When(std::move(wanted), [this, range, number](const Wanted& wanted) {
    std::vector<Tensor> parts(wanted.values.size());
    int64_t bytes = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (wanted.values[i]->failure() != nullptr) continue;
      parts[i] = wanted.values[i]->tensor();
      if (range.has_value()) {
        absl::StatusOr<Tensor> part = Part(parts[i], *range);
        if (!part.ok()) return Fail(part.status(), number);
        parts[i] = *std::move(part);
      }
      bytes += static_cast<int64_t>(parts[i].bytes());
    }
    if (bytes > max_bytes_) return Fail(TooLargeAnswer("the tensors have ", bytes, max_bytes_), number);
    v1::Reply reply;
    Attachments attachments;
    TellFailures(wanted, &reply);
    for (size_t i = 0; i < parts.size(); ++i) {
      v1::Tensor* proto = reply.add_tensors();
      if (wanted.values[i]->failure() != nullptr) continue;
      int64_t left = max_bytes_;
      (void)EncodeTensor(parts[i], v1::Tensor::RAW, &left, proto, &attachments);
    }
    Answer(std::move(reply), number, std::move(attachments), bytes);
  });
}

void SessionAnswers::Types(Wanted wanted, std::vector<uint64_t> gradients, uint64_t number) {
  When(std::move(wanted), [this, gradients = std::move(gradients), number](const Wanted& wanted) {
    v1::Reply reply;
    TellFailures(wanted, &reply);
    for (size_t i = 0; i < gradients.size(); ++i) {
      v1::ArrayType* type = reply.add_arrays();
      if (wanted.values[i]->failure() != nullptr) continue;
      const Tensor& tensor = wanted.values[i]->tensor();
      TypeToProto(tensor.shape(), tensor.dtype(), type);
      type->set_device(tensor.device().ToString());
      type->set_gradient(gradients[i]);
    }
    Answer(std::move(reply), number);
  });
}

void SessionAnswers::Watch(const ValuePtr& value) {
  if (value->known()) return;
  if (unknown_.size() >= 2 * unknown_at_least_ + 64) ForgetKnown();
  unknown_.push_back(value);
}

void SessionAnswers::ForgetKnown() {
  std::erase_if(unknown_, [](const std::weak_ptr<Value>& weak) {
    const ValuePtr value = weak.lock();
    return value == nullptr || value->known();
  });
  unknown_at_least_ = unknown_.size();
}

void SessionAnswers::All(uint64_t number) {
  ForgetKnown();
  std::vector<ValuePtr> values;
  for (const std::weak_ptr<Value>& value : unknown_) values.push_back(value.lock());
  // The answer keeps none of the values: it needs no tensor of theirs, and their memory may go, or be written, before it.
  WhenKnown(values, [weak = weak_from_this(), number] {
    const auto self = weak.lock();
    if (self == nullptr || self->ended_) return;
    v1::Reply reply;
    self->TellNoted(&reply);
    for (const FailurePtr& failure : std::exchange(self->untold_, {}))
      if (!failure->told) Tell(failure, 0, &reply);
    self->Answer(std::move(reply), number);
  });
}

// Calls `then` when the values are known, if somebody still listens.
template <class Then>
void SessionAnswers::When(Wanted wanted, Then then) {
  const std::vector<ValuePtr> values = wanted.values;
  WhenKnown(values, [weak = weak_from_this(), wanted = std::move(wanted), then = std::move(then)] {
    const auto self = weak.lock();
    if (self != nullptr && !self->ended_) then(wanted);
  });
}

void SessionAnswers::Tell(const FailurePtr& failure, uint64_t array, v1::Reply* reply) {
  v1::Failure* const proto = reply->add_failures();
  *proto->mutable_status() = ToProto(failure->status);
  proto->set_command(failure->command);
  proto->set_array(array);
  proto->set_told(std::exchange(failure->told, true));
}

void SessionAnswers::TellNoted(v1::Reply* reply) {
  for (const FailurePtr& failure : std::exchange(noted_, {}))
    if (!failure->told) Tell(failure, 0, reply);
  std::erase_if(untold_, [](const FailurePtr& failure) { return failure->told; });
}

void SessionAnswers::TellFailures(const Wanted& wanted, v1::Reply* reply) {
  TellNoted(reply);
  for (size_t i = 0; i < wanted.values.size(); ++i) {
    if (const FailurePtr& failure = wanted.values[i]->failure(); failure != nullptr) Tell(failure, wanted.arrays[i], reply);
  }
}

void SessionAnswers::Answer(v1::Reply reply, uint64_t number, Attachments attachments, int64_t bytes) {
  if (ended_) return;
  reply.set_number(number);
  send_(std::move(reply), std::move(attachments), bytes);
}

}  // namespace gluond::server
