// Cut takes large byte fields out of a serialized message, Weave puts them back: together they change nothing, whatever
// the message, however it is broken into slices. Broken input is refused, never read beyond its end.

#include "server/wire/wire_message.h"

#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "gluond/v1/operator.pb.h"
#include "gluond/v1/training.pb.h"
#include "gtest/gtest.h"
#include "server/wire/wire_check.h"

// Newer releases of protobuf log by Abseil.
#if __has_include("google/protobuf/stubs/logging.h")
#include "google/protobuf/stubs/logging.h"
#endif

namespace gluond::server {
namespace {

// `text` in slices of `piece` bytes.
Slices Split(const std::string& text, size_t piece) {
  Slices slices;
  for (size_t i = 0; i < text.size(); i += piece) slices.emplace_back(text.substr(i, piece));
  return slices;
}

std::string Join(const Slices& slices) {
  std::string text(Bytes(slices).size(), '\0');
  Bytes(slices).CopyTo(text.data());
  return text;
}

std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  return bytes;
}

v1::TrainStepRequest Batch(size_t image_bytes, size_t label_bytes) {
  v1::TrainStepRequest request;
  request.set_model("lenet");
  v1::Tensor& data = (*request.mutable_inputs())["data"];
  data.add_shape(64);
  data.set_raw(Pattern(image_bytes));
  (*request.mutable_inputs())["label"].set_raw(Pattern(label_bytes));
  request.mutable_call()->set_sequence(7);
  request.mutable_call()->set_client_id("laptop");
  return request;
}

TEST(WireCut, TakesLargeBytesOutAndLeavesTheRest) {
  const v1::TrainStepRequest request = Batch(200'704, 256);
  std::string rest;
  Attachments attachments;
  ASSERT_TRUE(Cut(Split(request.SerializeAsString(), 16384), *request.GetDescriptor(), &rest, &attachments).ok());
  EXPECT_LT(rest.size(), 1000u);
  EXPECT_EQ(attachments.size(), 1u);

  v1::TrainStepRequest cut;
  ASSERT_TRUE(cut.ParseFromString(rest));
  EXPECT_EQ(cut.model(), "lenet");
  EXPECT_EQ(cut.call().sequence(), 7u);
  const Bytes data = attachments.Get(cut.inputs().at("data").raw());
  std::string bytes(data.size(), '\0');
  data.CopyTo(bytes.data());
  EXPECT_EQ(bytes, request.inputs().at("data").raw());
  EXPECT_EQ(cut.inputs().at("label").raw(), request.inputs().at("label").raw());
}

TEST(WireCut, OneSliceIsNotCopied) {
  const v1::TrainStepRequest request = Batch(200'704, 256);
  const Slices slices = Split(request.SerializeAsString(), 1 << 20);
  std::string rest;
  Attachments attachments;
  ASSERT_TRUE(Cut(slices, *request.GetDescriptor(), &rest, &attachments).ok());
  v1::TrainStepRequest cut;
  ASSERT_TRUE(cut.ParseFromString(rest));
  const char* data = attachments.Get(cut.inputs().at("data").raw()).contiguous();
  const char* begin = reinterpret_cast<const char*>(slices[0].begin());
  ASSERT_NE(data, nullptr);
  EXPECT_GE(data, begin);
  EXPECT_LT(data, begin + slices[0].size());
}

TEST(WireCut, WeaveUndoesCutForAnySlicing) {
  for (const size_t image : {size_t{0}, size_t{100}, kAttachmentBytes - 1, kAttachmentBytes, size_t{70'000}}) {
    const v1::TrainStepRequest request = Batch(image, kAttachmentBytes + 3);
    const std::string text = request.SerializeAsString();
    for (const size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{17}, size_t{4096}, size_t{1 << 20}}) {
      std::string rest;
      Attachments attachments;
      ASSERT_TRUE(Cut(Split(text, piece), *request.GetDescriptor(), &rest, &attachments).ok());
      EXPECT_EQ(Join(Weave(rest, *request.GetDescriptor(), attachments)), text) << image << " in " << piece;
    }
  }
}

TEST(WireCut, AClientCannotMakeAPlaceholder) {
  v1::InvokeRequest request;
  request.add_inputs()->set_raw(std::string(Attachments::kPlaceholderSize, '\0'));
  request.add_inputs()->set_raw(Pattern(kAttachmentBytes));
  std::string rest;
  Attachments attachments;
  ASSERT_TRUE(Cut(Split(request.SerializeAsString(), 100), *request.GetDescriptor(), &rest, &attachments).ok());
  v1::InvokeRequest cut;
  ASSERT_TRUE(cut.ParseFromString(rest));
  EXPECT_EQ(attachments.Find(cut.inputs(0).raw()), nullptr);
  EXPECT_NE(attachments.Find(cut.inputs(1).raw()), nullptr);
  // A placeholder of one message is none of another.
  EXPECT_EQ(Attachments().Find(cut.inputs(1).raw()), nullptr);
}

TEST(WireCut, EveryTruncationIsRefusedOrParsesAsProtobufSays) {
  const v1::TrainStepRequest request = Batch(kAttachmentBytes + 50, 30);
  const std::string text = request.SerializeAsString();
  for (size_t length = 0; length < text.size(); ++length) {
    const std::string part = text.substr(0, length);
    std::string rest;
    Attachments attachments;
    const absl::Status status = Cut(Split(part, 1000), *request.GetDescriptor(), &rest, &attachments);
    v1::TrainStepRequest expected, cut;
    const bool valid = expected.ParseFromString(part);
    EXPECT_EQ(valid, status.ok() && cut.ParseFromString(rest)) << "of the first " << length << " bytes";
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  }
}

// Tags and lengths have 32 bits. protobuf reads at most 5 bytes of them, even where the others are zeros.
TEST(WireCut, RefusesTagsAndLengthsThatProtobufRefuses) {
  const std::string large = Batch(kAttachmentBytes + 50, 30).SerializeAsString();
  const std::string zeros = "\x80\x80\x80\x80";
  for (const std::string& field : {"\x8a" + zeros + std::string("\0\x01x", 3), "\x0a\x81" + zeros + std::string("\0x", 2)}) {
    std::string rest;
    Attachments attachments;
    v1::TrainStepRequest request;
    EXPECT_FALSE(request.ParseFromString(large + field));
    EXPECT_TRUE(absl::IsInvalidArgument(Cut(Split(large + field, 1000), *request.GetDescriptor(), &rest, &attachments)));
    EXPECT_EQ(FindDamage(field, *request.GetDescriptor()).find("do not fit together"), std::string::npos);
  }
}

TEST(WireCut, FlippedBytesNeverBreakIt) {
  const std::string text = Batch(kAttachmentBytes + 50, 30).SerializeAsString();
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string broken = text;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
      // Mostly where the structure is, not in the middle of the data.
      const size_t at = random() % 4 == 0 ? random() % broken.size() : random() % 60;
      broken[at] = static_cast<char>(random());
    }
    std::string rest;
    Attachments attachments;
    v1::TrainStepRequest message;
    const absl::Status status = Cut(Split(broken, 1 + random() % 3000), *message.GetDescriptor(), &rest, &attachments);
    if (!status.ok()) continue;
    if (message.ParseFromString(rest)) {
      EXPECT_TRUE(v1::TrainStepRequest().ParseFromString(broken));
    } else {
      EXPECT_FALSE(FindDamage(rest, *message.GetDescriptor()).empty());
    }
  }
}

TEST(FindDamage, NamesTheFieldAndThePlace) {
  v1::InvokeRequest request;
  request.set_op("relu");
  request.add_inputs()->set_raw("abcdefgh");
  const std::string text = request.SerializeAsString();
  const auto damage = [](const std::string& t) { return FindDamage(t, *v1::InvokeRequest::descriptor()); };
  EXPECT_EQ(damage(text.substr(0, text.size() - 3)), "inputs is longer than what holds it, at byte 8 of 15");
  EXPECT_EQ(damage("\x0a\x03"
                   "a\xff"
                   "b"),
            "op is not UTF-8, at byte 2 of 5");
  EXPECT_EQ(damage("\x0b"), "op has the unknown wire type 3, at byte 1 of 1");
  EXPECT_EQ(damage("\x12\x03\x0a\x01\xff"), "inputs.shape ends in the middle of a number, at byte 5 of 5");
}

// Bytes at the borders of what UTF-8 allows, in every order of up to four.
TEST(FindDamage, CallsTheStringsUtf8ThatProtobufTakes) {
  const std::string borders("\x00\x41\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xed\xef\xf0\xf4\xf5\xf8\xff", 21);
  int refused = 0;
#if __has_include("google/protobuf/stubs/logging.h")
  google::protobuf::LogSilencer silencer;  // A line for each refused string would be 20 MB.
#endif
  for (size_t i = 0; i < borders.size() * borders.size() * borders.size() * borders.size(); ++i) {
    std::string text;
    for (size_t rest = i; rest != 0; rest /= borders.size()) text += borders[rest % borders.size()];
    const std::string message = std::string({'\x0a', static_cast<char>(text.size())}) + text;
    const bool taken = v1::InvokeRequest().ParseFromString(message);
    refused += taken ? 0 : 1;
    const std::string damage = FindDamage(message, *v1::InvokeRequest::descriptor());
    ASSERT_EQ(damage.find("op is not UTF-8") == std::string::npos, taken) << absl::CHexEscape(text);
  }
  EXPECT_GT(refused, 100'000);
}

}  // namespace
}  // namespace gluond::server
