#include "server/session/answers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "server/codec/tensor_codec.h"
#include "server/rpc/grpc_status.h"

namespace gluond::server {
namespace {

constexpr size_t kMostKept = 1000;  // Failures that the client has not been told of.

void FailureToProto(const Failure& failure, uint64_t array, v1::Failure* proto) {
  *proto->mutable_status() = ToProto(failure.status);
  proto->set_command(failure.command);
  proto->set_array(array);
  proto->set_told(failure.told);
}

absl::Status TooLarge(int64_t bytes, int64_t limit) {
  return OverLimit("--max_message_bytes", "the tensors have ", bytes, " bytes, more than the ", limit,
                   " of --max_message_bytes; fetch arrays one by one, or slices of a large one");
}

// The elements of `whole`, in its memory.
absl::StatusOr<Tensor> Part(const Tensor& whole, ElementRange range) {
  const auto size = static_cast<uint64_t>(whole.Size());
  if (range.begin >= range.end || range.end > size) {
    return absl::InvalidArgumentError(absl::StrCat("Fetch wants elements [", range.begin, ", ", range.end,
                                                   ") of an array of shape ", whole.shape().ToString(), ", which has ", size,
                                                   "; ask for a part of these that is not empty"));
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
  auto failure = std::make_shared<Failure>();
  failure->status = status;
  failure->command = number;
  Remember(failure);
  noted_.push_back(std::move(failure));
  if (noted_.size() > kMostKept) noted_.erase(noted_.begin());
}

void SessionAnswers::Fail(const absl::Status& status, uint64_t number) {
  v1::Reply reply;
  TellNoted(&reply);
  Failure failure;
  failure.status = status;
  failure.command = number;
  FailureToProto(failure, 0, reply.add_failures());
  Answer(std::move(reply), number);
}

void SessionAnswers::Fail(const FailurePtr& failure, uint64_t number) {
  v1::Reply reply;
  TellNoted(&reply);
  Tell(failure, 0, &reply);
  Answer(std::move(reply), number);
}

void SessionAnswers::Await(std::vector<ValuePtr> values, std::vector<uint64_t> names, uint64_t number,
                           std::function<void(std::vector<Tensor>)> then, std::function<void(absl::StatusCode)> failed) {
  When(values, [this, values, names = std::move(names), number, then = std::move(then), failed = std::move(failed)] {
    v1::Reply reply;
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i]->failure() == nullptr) {
        tensors.push_back(values[i]->tensor());
        continue;
      }
      if (reply.failures().empty()) {
        TellNoted(&reply);
        if (failed != nullptr) failed(values[i]->failure()->status.code());
      }
      Tell(values[i]->failure(), names[i], &reply);
    }
    reply.failures().empty() ? then(std::move(tensors)) : Answer(std::move(reply), number);
  });
}

void SessionAnswers::Values(std::vector<ValuePtr> values, std::vector<uint64_t> names, std::optional<ElementRange> range,
                            uint64_t number) {
  When(values, [this, values, names = std::move(names), range, number] {
    std::vector<Tensor> parts(values.size());
    int64_t bytes = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i]->failure() != nullptr) continue;
      parts[i] = values[i]->tensor();
      if (range.has_value()) {
        absl::StatusOr<Tensor> part = Part(parts[i], *range);
        if (!part.ok()) return Fail(part.status(), number);
        parts[i] = *std::move(part);
      }
      bytes += static_cast<int64_t>(parts[i].bytes());
    }
    if (bytes > max_bytes_) return Fail(TooLarge(bytes, max_bytes_), number);
    v1::Reply reply;
    Attachments attachments;
    TellNoted(&reply);
    for (size_t i = 0; i < values.size(); ++i) {
      v1::Tensor* proto = reply.add_tensors();
      if (values[i]->failure() != nullptr) {
        Tell(values[i]->failure(), names[i], &reply);
        continue;
      }
      int64_t left = max_bytes_;
      (void)EncodeTensor(parts[i], v1::Tensor::RAW, &left, proto, &attachments);
    }
    Answer(std::move(reply), number, std::move(attachments), bytes);
  });
}

void SessionAnswers::Types(std::vector<ValuePtr> values, std::vector<uint64_t> names, std::vector<uint64_t> gradients,
                           uint64_t number) {
  When(values, [this, values, names = std::move(names), gradients = std::move(gradients), number] {
    v1::Reply reply;
    TellNoted(&reply);
    for (size_t i = 0; i < values.size(); ++i) {
      v1::ArrayType* type = reply.add_arrays();
      if (values[i]->failure() != nullptr) {
        Tell(values[i]->failure(), names[i], &reply);
        continue;
      }
      const Tensor& tensor = values[i]->tensor();
      type->set_has_shape(true);
      for (const int64_t dim : tensor.shape().dims()) type->add_shape(dim);
      type->set_dtype(ToProto(tensor.dtype()));
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
  for (const std::weak_ptr<Value>& weak : unknown_) values.push_back(weak.lock());
  When(values, [this, number] {
    v1::Reply reply;
    TellNoted(&reply);
    for (const FailurePtr& failure : std::exchange(untold_, {}))
      if (!failure->told) Tell(failure, 0, &reply);
    Answer(std::move(reply), number);
  });
}

// Calls `then` when the values are known, if somebody still listens.
template <class Then>
void SessionAnswers::When(const std::vector<ValuePtr>& values, Then then) {
  WhenKnown(values, [weak = weak_from_this(), then = std::move(then)] {
    const auto self = weak.lock();
    if (self != nullptr && !self->ended_) then();
  });
}

void SessionAnswers::Tell(const FailurePtr& failure, uint64_t array, v1::Reply* reply) {
  FailureToProto(*failure, array, reply->add_failures());
  failure->told = true;
}

void SessionAnswers::TellNoted(v1::Reply* reply) {
  for (const FailurePtr& failure : std::exchange(noted_, {}))
    if (!failure->told) Tell(failure, 0, reply);
  std::erase_if(untold_, [](const FailurePtr& failure) { return failure->told; });
}

void SessionAnswers::Answer(v1::Reply reply, uint64_t number, Attachments attachments, int64_t bytes) {
  if (ended_) return;
  reply.set_number(number);
  send_(std::move(reply), std::move(attachments), bytes);
}

}  // namespace gluond::server
