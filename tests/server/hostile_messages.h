// Hostile messages: every field of a message, and of the messages in it, with each of the values that its type makes
// likely to hurt.

#ifndef TESTS_SERVER_HOSTILE_MESSAGES_H_
#define TESTS_SERVER_HOSTILE_MESSAGES_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace gluond::server {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Calls `use` with a word about each change while the message that `at` belongs to has it; in the end it is as it was.
class HostileMessages {
 public:
  explicit HostileMessages(std::function<void(const std::string& change)> use) : use_(std::move(use)) {}

  void Of(Message* at, const std::string& path = "", int depth = 0) {
    const std::unique_ptr<Message> as_it_was(at->New());
    as_it_was->CopyFrom(*at);
    for (int i = 0; i < at->GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* const field = at->GetDescriptor()->field(i);
      const std::string name = path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
      const auto change = [&](const std::string& what, const std::function<void()>& make) {
        make();
        use_(absl::StrCat(name, " ", what));
        at->CopyFrom(*as_it_was);
      };
      change("is cleared", [&] { at->GetReflection()->ClearField(at, field); });
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        if (depth < kMostDepth) Within(at, field, name, depth);
      } else {
        EachValue(at, field, change);
      }
      if (!field->is_repeated()) continue;
      for (const int times : {1, 1000}) {  // The message's other lists grow along.
        change(absl::StrCat("has its values ", times, " times more"), [&] {
          for (int n = 0; n < times; ++n) at->MergeFrom(*as_it_was);
        });
      }
    }
  }

 private:
  using Change = std::function<void(const std::string& what, const std::function<void()>& make)>;
  static constexpr int kMostDepth = 4;

  void Within(Message* at, const FieldDescriptor* field, const std::string& name, int depth) {
    const auto* const reflection = at->GetReflection();
    const std::unique_ptr<Message> as_it_was(at->New());
    as_it_was->CopyFrom(*at);
    if (field->is_repeated() && reflection->FieldSize(*at, field) == 0) reflection->AddMessage(at, field);
    const std::string first = absl::StrCat(name, "[0]");
    if (field->is_map()) {
      WithinMap(at, field, first, depth);
    } else if (field->is_repeated()) {
      Of(reflection->MutableRepeatedMessage(at, field, 0), first, depth + 1);
    } else {
      Of(reflection->MutableMessage(at, field), name, depth + 1);
    }
    at->CopyFrom(*as_it_was);
  }

  // A map does not see what is changed in its entries behind it: a copy of the first is changed and put there each time.
  void WithinMap(Message* at, const FieldDescriptor* field, const std::string& name, int depth) {
    const auto* const reflection = at->GetReflection();
    const std::unique_ptr<Message> map(at->New()), entry(reflection->GetRepeatedMessage(*at, field, 0).New());
    map->CopyFrom(*at);
    entry->CopyFrom(reflection->GetRepeatedMessage(*at, field, 0));
    HostileMessages([&](const std::string& change) {
      at->CopyFrom(*map);
      reflection->MutableRepeatedMessage(at, field, 0)->CopyFrom(*entry);
      use_(change);
    }).Of(entry.get(), name, depth + 1);
  }

  void EachValue(Message* at, const FieldDescriptor* field, const Change& change) {
    const auto* const reflection = at->GetReflection();
    const auto each = [&](auto set, auto set_first, auto add, const auto& values) {
      for (const auto& value : values) {
        change(absl::StrCat("is ", Word(value)), [&] {
          if (!field->is_repeated()) {
            (reflection->*set)(at, field, value);
          } else if (reflection->FieldSize(*at, field) > 0) {
            (reflection->*set_first)(at, field, 0, value);
          } else {
            (reflection->*add)(at, field, value);
          }
        });
      }
    };
    using R = google::protobuf::Reflection;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: return each(&R::SetInt32, &R::SetRepeatedInt32, &R::AddInt32, Integers<int32_t>());
      case FieldDescriptor::CPPTYPE_INT64: return each(&R::SetInt64, &R::SetRepeatedInt64, &R::AddInt64, Integers<int64_t>());
      case FieldDescriptor::CPPTYPE_UINT32: return each(&R::SetUInt32, &R::SetRepeatedUInt32, &R::AddUInt32, Integers<uint32_t>());
      case FieldDescriptor::CPPTYPE_UINT64: return each(&R::SetUInt64, &R::SetRepeatedUInt64, &R::AddUInt64, Integers<uint64_t>());
      case FieldDescriptor::CPPTYPE_FLOAT: return each(&R::SetFloat, &R::SetRepeatedFloat, &R::AddFloat, Reals<float>());
      case FieldDescriptor::CPPTYPE_DOUBLE: return each(&R::SetDouble, &R::SetRepeatedDouble, &R::AddDouble, Reals<double>());
      case FieldDescriptor::CPPTYPE_ENUM:
        return each(&R::SetEnumValue, &R::SetRepeatedEnumValue, &R::AddEnumValue, std::vector<int>{0, 1, 99, -1});
      case FieldDescriptor::CPPTYPE_BOOL: return each(&R::SetBool, &R::SetRepeatedBool, &R::AddBool, std::vector<int>{0, 1});
      case FieldDescriptor::CPPTYPE_STRING: return each(&R::SetString, &R::SetRepeatedString, &R::AddString, Texts());
      case FieldDescriptor::CPPTYPE_MESSAGE: return;
    }
  }

  template <class T>
  static std::vector<T> Integers() {
    return {0,
            1,
            2,
            7,
            65,
            1000,
            static_cast<T>(-1),
            std::numeric_limits<T>::min(),
            std::numeric_limits<T>::max(),
            static_cast<T>(std::numeric_limits<T>::max() / 2 + 1)};
  }
  template <class T>
  static std::vector<T> Reals() {
    return {0,
            -1,
            std::numeric_limits<T>::quiet_NaN(),
            std::numeric_limits<T>::infinity(),
            std::numeric_limits<T>::max(),
            std::numeric_limits<T>::denorm_min()};
  }
  static std::vector<std::string> Texts() {
    return {"",
            ".",
            "..",
            "../../etc/passwd",
            "/etc/passwd",
            "C:\\x",
            "a/b",
            std::string("a\0b", 3),
            "a\nb",
            " ",
            "%s%n",
            "-1",
            "0",
            "9223372036854775807",
            "99999999999999999999",
            "nan",
            "true",
            std::string(300, 'a'),
            std::string(70'000, 'x')};
  }
  static std::string Word(const std::string& text) { return absl::StrCat("a text of ", text.size(), " bytes"); }
  template <class T>
  static std::string Word(T value) {
    return absl::StrCat(value);
  }

  const std::function<void(const std::string&)> use_;
};

}  // namespace gluond::server

#endif  // TESTS_SERVER_HOSTILE_MESSAGES_H_
