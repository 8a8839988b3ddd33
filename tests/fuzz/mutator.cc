// Changes structured inputs: values, elements and whole messages, a few at a time, through protobuf's reflection. Small
// numbers and words that the input has already are likely, since commands and nodes refer to each other by them.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "google/protobuf/text_format.h"
#include "tests/fuzz/fuzz.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace gluond::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void Change(Message* input) {
    messages_.clear();
    Collect(input);
    Message* const message = messages_[Below(messages_.size())];
    const int count = message->GetDescriptor()->field_count();
    if (count > 0) ChangeField(message, message->GetDescriptor()->field(static_cast<int>(Below(static_cast<size_t>(count)))));
  }

  // Takes elements of `other` over.
  void Cross(const Message& other, Message* input) {
    const Message& from = other;
    const auto* reflection = input->GetReflection();
    for (int i = 0; i < input->GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* field = input->GetDescriptor()->field(i);
      if (!field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
      const int n = reflection->FieldSize(from, field);
      const int begin = n == 0 ? 0 : static_cast<int>(Below(static_cast<size_t>(n)));
      for (int k = begin; k < n && Below(8) > 0; ++k) {
        reflection->AddMessage(input, field)->CopyFrom(reflection->GetRepeatedMessage(from, field, k));
      }
    }
    if (Below(4) == 0) input->MergeFrom(other);
  }

 private:
  size_t Below(size_t n) { return random_() % n; }

  void Collect(Message* message) {
    messages_.push_back(message);
    std::vector<const FieldDescriptor*> fields;
    const auto* reflection = message->GetReflection();
    reflection->ListFields(*message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && strings_.size() < 100) {
        if (!field->is_repeated()) strings_.push_back(reflection->GetString(*message, field));
        for (int i = 0; field->is_repeated() && i < reflection->FieldSize(*message, field); ++i) {
          strings_.push_back(reflection->GetRepeatedString(*message, field, i));
        }
      }
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      if (!field->is_repeated()) Collect(reflection->MutableMessage(message, field));
      for (int i = 0; field->is_repeated() && i < reflection->FieldSize(*message, field); ++i) {
        Collect(reflection->MutableRepeatedMessage(message, field, i));
      }
    }
  }

  void ChangeField(Message* message, const FieldDescriptor* field, int depth = 0) {
    const auto* reflection = message->GetReflection();
    if (!field->is_repeated()) {
      if (Below(6) == 0) return reflection->ClearField(message, field);
      return Set(message, field, -1, depth);
    }
    const int n = reflection->FieldSize(*message, field);
    const int i = n == 0 ? 0 : static_cast<int>(Below(static_cast<size_t>(n)));
    switch (n == 0 ? 0 : Below(6)) {
      case 0: return Set(message, field, n, depth);
      case 1: reflection->SwapElements(message, field, i, n - 1); return reflection->RemoveLast(message, field);
      case 2: return reflection->SwapElements(message, field, i, static_cast<int>(Below(static_cast<size_t>(n))));
      case 3:
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map()) {
          Message* const copy = reflection->AddMessage(message, field);
          return copy->CopyFrom(reflection->GetRepeatedMessage(*message, field, i));
        }
        [[fallthrough]];
      default: return Set(message, field, i, depth);
    }
  }

  // Some fields of a message.
  void Fill(Message* message, int depth) {
    const auto* type = message->GetDescriptor();
    if (depth > 4 || type->field_count() == 0) return;
    for (int n = static_cast<int>(1 + Below(4)); n > 0; --n) {
      ChangeField(message, type->field(static_cast<int>(Below(static_cast<size_t>(type->field_count())))), depth + 1);
    }
  }

  // Gives the field, or element `i` of it (the next one: adds it), a new value.
  void Set(Message* message, const FieldDescriptor* field, int i, int depth) {
    const auto* reflection = message->GetReflection();
    const bool add = field->is_repeated() && i == reflection->FieldSize(*message, field);
    const auto set = [&](auto set_one, auto add_one, auto set_at, auto value) {
      if (!field->is_repeated()) return (reflection->*set_one)(message, field, value);
      add ? (reflection->*add_one)(message, field, value) : (reflection->*set_at)(message, field, i, value);
    };
    using R = google::protobuf::Reflection;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return set(&R::SetInt32, &R::AddInt32, &R::SetRepeatedInt32, static_cast<int32_t>(Whole()));
      case FieldDescriptor::CPPTYPE_INT64: return set(&R::SetInt64, &R::AddInt64, &R::SetRepeatedInt64, Whole());
      case FieldDescriptor::CPPTYPE_UINT32:
        return set(&R::SetUInt32, &R::AddUInt32, &R::SetRepeatedUInt32, static_cast<uint32_t>(Whole()));
      case FieldDescriptor::CPPTYPE_UINT64:
        return set(&R::SetUInt64, &R::AddUInt64, &R::SetRepeatedUInt64, static_cast<uint64_t>(Whole()));
      case FieldDescriptor::CPPTYPE_DOUBLE: return set(&R::SetDouble, &R::AddDouble, &R::SetRepeatedDouble, Real());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return set(&R::SetFloat, &R::AddFloat, &R::SetRepeatedFloat, static_cast<float>(std::clamp(Real(), -1e38, 1e38)));
      case FieldDescriptor::CPPTYPE_BOOL: return set(&R::SetBool, &R::AddBool, &R::SetRepeatedBool, Below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto* type = field->enum_type();
        const int number = type->value(static_cast<int>(Below(static_cast<size_t>(type->value_count()))))->number();
        return set(&R::SetEnumValue, &R::AddEnumValue, &R::SetRepeatedEnumValue, Below(30) == 0 ? 99 : number);
      }
      case FieldDescriptor::CPPTYPE_STRING:
        return set(&R::SetString, &R::AddString, &R::SetRepeatedString, Text(field->type() == FieldDescriptor::TYPE_BYTES));
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Message* const child = !field->is_repeated() ? reflection->MutableMessage(message, field)
                               : add                 ? reflection->AddMessage(message, field)
                                                     : reflection->MutableRepeatedMessage(message, field, i);
        return Fill(child, depth);
      }
    }
  }

  int64_t Whole() {
    constexpr int64_t kEdges[] = {-1,
                                  16,
                                  64,
                                  255,
                                  65536,
                                  int64_t{1} << 31,
                                  int64_t{1} << 40,
                                  std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()};
    return Below(10) > 0 ? static_cast<int64_t>(Below(7)) : kEdges[Below(std::size(kEdges))];
  }
  double Real() {
    constexpr double kEdges[] = {0, -1, 0.5, 1e-300, 1e300, 9.3e18, HUGE_VAL, -HUGE_VAL, NAN};
    return Below(3) > 0 ? static_cast<double>(Whole()) : kEdges[Below(std::size(kEdges))];
  }
  std::string Text(bool bytes) {
    static const std::vector<std::string>& words = *new std::vector<std::string>(Words());
    if (bytes && Below(2) == 0) return std::string(Below(40), static_cast<char>(Below(3)));
    const size_t kind = Below(8);
    if (kind < 3 && !strings_.empty()) return strings_[Below(strings_.size())];
    if (kind < 6 && !words.empty()) return words[Below(words.size())];
    std::string text = strings_.empty() ? "" : strings_[Below(strings_.size())].substr(0, 60);
    const size_t before = text.size();
    text.resize(64);
    text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), before, 64));
    if (!bytes)
      for (char& c : text) c = static_cast<char>(c & 0x7f);  // The parser refuses text that is not UTF-8.
    return text;
  }

  std::minstd_rand random_;
  std::vector<Message*> messages_;
  std::vector<std::string> strings_;
};

// 0: it does not fit.
size_t Print(const Message& input, uint8_t* to, size_t max_size) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(input, &text);
  if (text.size() > max_size) return 0;
  std::memcpy(to, text.data(), text.size());
  return text.size();
}

std::unique_ptr<Message> Read(const uint8_t* data, size_t size) {
  std::unique_ptr<Message> input(NewInput());
  if (!ParseInput({reinterpret_cast<const char*>(data), size}, input.get())) input->Clear();
  return input;
}

}  // namespace
}  // namespace gluond::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  const auto input = gluond::fuzz::Read(data, size);
  gluond::fuzz::Mutator mutator(seed);
  for (unsigned n = 1 + seed % 3; n > 0; --n) mutator.Change(input.get());
  const size_t changed = gluond::fuzz::Print(*input, data, max_size);
  return changed > 0 ? changed : size;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1, const uint8_t* data2, size_t size2, uint8_t* out,
                                            size_t max_size, unsigned seed) {
  const auto input = gluond::fuzz::Read(data1, size1);
  gluond::fuzz::Mutator(seed).Cross(*gluond::fuzz::Read(data2, size2), input.get());
  return gluond::fuzz::Print(*input, out, max_size);
}
