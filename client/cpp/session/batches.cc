#include "client/cpp/session/batches.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/session/wire.h"
#include "gluond/v1/command.pb.h"
#include "gluond/v1/session.pb.h"

namespace gluond::client {
namespace {

constexpr size_t kBatchCommands = 4096;
// So many lines are remembered.
constexpr size_t kLines = size_t{1} << 17;

// So many names leave in one command.
constexpr size_t kFreed = 4096;

std::vector<uint64_t> TakeSome(std::vector<uint64_t>* names) {
  const auto begin = names->end() - static_cast<ptrdiff_t>(std::min(names->size(), kFreed));
  std::vector<uint64_t> taken(begin, names->end());
  names->erase(begin, names->end());
  return taken;
}

}  // namespace

std::string Batch::Message(uint64_t replies) const {
  std::string message;
  message.reserve(body.size() + 24);
  AppendNumber(v1::SessionRequest::kFirstNumberFieldNumber, first, &message);
  AppendNumber(v1::SessionRequest::kRepliesReceivedFieldNumber, replies, &message);
  message += body;
  return message;
}

uint64_t Batches::Append(absl::string_view command, Place place) {
  if (unsent_.back().body.size() + command.size() > std::min(kBatchBytes, most_bytes)) Close();
  Batch& batch = unsent_.back();
  AppendBytes(v1::SessionRequest::kCommandsFieldNumber, command, &batch.body);
  batch.places.push_back(place);
  const uint64_t number = batch.last();
  if (batch.places.size() >= kBatchCommands || batch.body.size() >= kBatchBytes) Close();
  return number;
}

void Batches::AppendFree() {
  if (unsent_.size() > 1) return;
  if (dead_arrays_.empty() && dead_calls_.empty() && dead_graphs_.empty() && dead_optimizers_.empty()) return;
  std::string free;
  AppendPacked(v1::Command::Free::kArraysFieldNumber, TakeSome(&dead_arrays_), &free);
  AppendPacked(v1::Command::Free::kCallsFieldNumber, TakeSome(&dead_calls_), &free);
  AppendPacked(v1::Command::Free::kGraphsFieldNumber, TakeSome(&dead_graphs_), &free);
  AppendPacked(v1::Command::Free::kOptimizersFieldNumber, TakeSome(&dead_optimizers_), &free);
  Append(CommandOf(v1::Command::kFreeFieldNumber, free), {});
}

std::string Batches::Take(uint64_t replies) {
  if (unsent_.size() == 1) Close();
  std::string message = unsent_.front().Message(replies);
  kept_.push_back(std::move(unsent_.front()));
  unsent_.pop_front();
  return message;
}

void Batches::DropReceived(uint64_t number) {
  while (!kept_.empty() && kept_.front().last() <= number) {
    closed_bytes_ -= kept_.front().body.size();
    kept_.pop_front();
  }
}

void Batches::SendAgain() {
  unsent_.insert(unsent_.begin(), std::make_move_iterator(kept_.begin()), std::make_move_iterator(kept_.end()));
  kept_.clear();
}

void Batches::Close() {
  Batch& batch = unsent_.back();
  if (batch.places.empty()) return;
  closed_bytes_ += batch.body.size();
  lines_.push_back({batch.first, batch.places});
  num_lines_ += batch.places.size();
  while (num_lines_ > kLines) {
    num_lines_ -= lines_.front().places.size();
    lines_.pop_front();
  }
  const uint64_t next = batch.last() + 1;
  unsent_.emplace_back().first = next;
}

std::string Batches::LineOf(uint64_t number) const {
  const auto found = [number](uint64_t first, const std::vector<Place>& places) -> std::string {
    if (number < first || number - first >= places.size()) return "";
    const Place& place = places[number - first];
    return place.line == 0 ? "" : absl::StrCat(place.file, ":", place.line);
  };
  if (number >= unsent_.back().first) return found(unsent_.back().first, unsent_.back().places);
  for (auto lines = lines_.rbegin(); lines != lines_.rend(); ++lines) {
    if (lines->first <= number) return found(lines->first, lines->places);
  }
  return "";
}

}  // namespace gluond::client
