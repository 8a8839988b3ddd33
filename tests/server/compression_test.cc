// Compressed messages, from a client that compresses by itself, so that it can send whatever it likes: what is whole is
// answered, compressed as well; damage, bombs and other nonsense are refused, and the server goes on.

#include <cstring>

#include "grpc/grpc.h"
#include "grpc/grpc_security.h"
#include "tests/server/deflated.h"
#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

std::string Deflated(const std::string& text, grpc_compression_algorithm algorithm) {
  return Deflated(text, algorithm == GRPC_COMPRESS_GZIP ? Encoding::kGzip : Encoding::kDeflate);
}

struct Answer {
  grpc_status_code code = GRPC_STATUS_UNKNOWN;
  std::string message;
  std::string reply;                                            // As it came.
  grpc_compression_algorithm compression = GRPC_COMPRESS_NONE;  // The reply's.
};

std::string Take(grpc_slice slice) {
  std::string text(reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice));
  grpc_slice_unref(slice);
  return text;
}

// A client of gRPC's C interface, which sends compressed messages as they are given, and does not inflate replies.
class RawClient {
 public:
  explicit RawClient(const std::string& address) : queue_(grpc_completion_queue_create_for_next(nullptr)) {
    grpc_arg as_they_are = {GRPC_ARG_INTEGER, const_cast<char*>(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION), {}};
    as_they_are.value.integer = 0;
    const grpc_channel_args args = {1, &as_they_are};
    grpc_channel_credentials* const credentials = grpc_insecure_credentials_create();
    channel_ = grpc_channel_create(address.c_str(), credentials, &args);
    grpc_channel_credentials_release(credentials);
  }
  ~RawClient() {
    grpc_channel_destroy(channel_);
    grpc_completion_queue_shutdown(queue_);
    grpc_event event;
    do {
      event = grpc_completion_queue_next(queue_, gpr_inf_future(GPR_CLOCK_REALTIME), nullptr);
    } while (event.type != GRPC_QUEUE_SHUTDOWN);
    grpc_completion_queue_destroy(queue_);
  }

  // `flagged`: the message says that it is compressed. `named`: the call's headers say how.
  Answer Ask(const std::string& method, const std::string& bytes, grpc_compression_algorithm flagged,
             grpc_compression_algorithm named) {
    const gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(60, GPR_TIMESPAN));
    grpc_slice path = grpc_slice_from_copied_string(method.c_str());
    grpc_call* const call =
        grpc_channel_create_call(channel_, nullptr, GRPC_PROPAGATE_DEFAULTS, queue_, path, nullptr, deadline, nullptr);
    grpc_slice_unref(path);
    grpc_slice slice = grpc_slice_from_copied_buffer(bytes.data(), bytes.size());
    grpc_byte_buffer* const message = grpc_raw_compressed_byte_buffer_create(&slice, 1, flagged);
    grpc_slice_unref(slice);
    grpc_metadata encoding = {};
    encoding.key = grpc_slice_from_static_string(GRPC_COMPRESSION_REQUEST_ALGORITHM_MD_KEY);
    encoding.value = grpc_slice_from_static_string(named == GRPC_COMPRESS_GZIP ? "gzip" : "deflate");
    grpc_metadata_array initial, trailing;
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    grpc_byte_buffer* reply = nullptr;
    grpc_slice details = grpc_empty_slice();
    Answer answer;
    grpc_op ops[6] = {};
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].data.send_initial_metadata.count = named == GRPC_COMPRESS_NONE ? 0 : 1;
    ops[0].data.send_initial_metadata.metadata = &encoding;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = message;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client = {&trailing, &answer.code, &details, nullptr};
    EXPECT_EQ(grpc_call_start_batch(call, ops, 6, call, nullptr), GRPC_CALL_OK);
    EXPECT_EQ(grpc_completion_queue_next(queue_, gpr_inf_future(GPR_CLOCK_REALTIME), nullptr).type, GRPC_OP_COMPLETE);
    answer.message = Take(details);
    if (reply != nullptr) {
      answer.compression = reply->data.raw.compression;
      grpc_byte_buffer_reader reader;
      EXPECT_TRUE(grpc_byte_buffer_reader_init(&reader, reply));
      answer.reply = Take(grpc_byte_buffer_reader_readall(&reader));
      grpc_byte_buffer_reader_destroy(&reader);
      grpc_byte_buffer_destroy(reply);
    }
    grpc_byte_buffer_destroy(message);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_call_unref(call);
    return answer;
  }

 private:
  grpc_completion_queue* const queue_;
  grpc_channel* channel_ = nullptr;
};

constexpr char kGetModel[] = "/gluond.v1.ModelService/GetModel", kInfer[] = "/inference.GRPCInferenceService/ModelInfer",
               kCheck[] = "/grpc.health.v1.Health/Check", kWatch[] = "/grpc.health.v1.Health/Watch",
               kReflection[] = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
               kStream[] = "/inference.GRPCInferenceService/ModelStreamInfer";

class CompressionTest : public ServingTest, public testing::WithParamInterface<grpc_compression_algorithm> {
 protected:
  void Configure(ServerOptions* options) override {
    options->address = "127.0.0.1:0";
    options->store_dir.clear();
    options->limits.max_message_bytes = 4 << 20;
  }
  void SetUp() override {
    ServingTest::SetUp();
    Connect();
  }
  void TearDown() override {
    client_.reset();
    ServingTest::TearDown();
  }
  void Connect() { client_ = std::make_unique<RawClient>(absl::StrCat("127.0.0.1:", server_->port())); }
  Answer Ask(const std::string& method, const std::string& bytes) { return client_->Ask(method, bytes, GetParam(), GetParam()); }
  Answer AskPacked(const std::string& method, const std::string& message) { return Ask(method, Deflated(message, GetParam())); }
  void ExpectHealthy() {
    EXPECT_EQ(client_->Ask(kCheck, "", GRPC_COMPRESS_NONE, GRPC_COMPRESS_NONE).code, GRPC_STATUS_OK);
    EXPECT_EQ(server_->UnderWay(), 0);
  }

  std::unique_ptr<RawClient> client_;
};

INSTANTIATE_TEST_SUITE_P(Algorithms, CompressionTest, testing::Values(GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP));

TEST_P(CompressionTest, ACompressedRequestHasTheAnswerOfAPlainOne) {
  Publish(R"(, "options": {"max_batch_size": 0})");
  for (const int64_t rows : {1, 1000, 20'000}) {  // On gRPC's thread, on a worker, and of several pieces.
    const auto request = Rows(rows);
    const Answer plain = client_->Ask(kInfer, request.SerializeAsString(), GRPC_COMPRESS_NONE, GRPC_COMPRESS_NONE);
    ASSERT_EQ(plain.code, GRPC_STATUS_OK) << plain.message;
    EXPECT_EQ(plain.compression, GRPC_COMPRESS_NONE) << "nobody has asked for it";
    const Answer packed = AskPacked(kInfer, request.SerializeAsString());
    ASSERT_EQ(packed.code, GRPC_STATUS_OK) << packed.message;
    if (rows == 1) continue;  // So short an answer grows by being compressed, and is not.
    EXPECT_EQ(packed.compression, GRPC_COMPRESS_GZIP) << "of those that the client takes";
    EXPECT_LT(packed.reply.size(), plain.reply.size() / 2);
    const absl::StatusOr<Slices> reply =
        Inflate({grpc::Slice(packed.reply)}, Encoding::kGzip, 4 << 20, absl::OkStatus(), [](int64_t) { return absl::OkStatus(); });
    ASSERT_TRUE(reply.ok()) << reply.status();
    std::string text(Bytes(*reply).size(), '\0');
    Bytes(*reply).CopyTo(text.data());
    EXPECT_TRUE(text == plain.reply) << rows;
  }
}

TEST_P(CompressionTest, StreamsAndProbesTakeCompressedMessages) {
  Publish();
  const Answer answer = AskPacked(kStream, Rows(2).SerializeAsString());
  EXPECT_EQ(answer.code, GRPC_STATUS_OK) << answer.message;
  inference::ModelStreamInferResponse response;
  ASSERT_TRUE(response.ParseFromString(answer.reply));
  EXPECT_EQ(response.infer_response().outputs(0).shape(0), 2) << response.error_message();
  EXPECT_EQ(AskPacked(kCheck, "\x0a\x16gluond.v1.ModelService").code, GRPC_STATUS_OK);
  const Answer reflected = AskPacked(kReflection, "\x3a\x01*");
  EXPECT_EQ(reflected.code, GRPC_STATUS_OK) << reflected.message;
  EXPECT_THAT(reflected.reply, HasSubstr("gluond.v1.ModelService"));
}

TEST_P(CompressionTest, AnEmptyMessageMayBeCompressed) { EXPECT_EQ(AskPacked(kCheck, "").code, GRPC_STATUS_OK); }

TEST_P(CompressionTest, DamageIsAnInvalidArgument) {
  const std::string good = Deflated("\x0a\x03mlp", GetParam());
  ASSERT_EQ(Ask(kGetModel, good).code, GRPC_STATUS_OK);
  for (const std::string& bad : {std::string(), good.substr(0, good.size() / 2), good.substr(0, good.size() - 1), good + "x",
                                 good + good, std::string("\x0a\x03mlp"), std::string(10'000, '\xff')}) {
    for (const char* method : {kGetModel, kStream, kReflection, kCheck}) {
      const Answer answer = Ask(method, bad);
      EXPECT_EQ(answer.code, GRPC_STATUS_INVALID_ARGUMENT) << method << ": " << answer.message;
      EXPECT_THAT(answer.message, HasSubstr("the compressed message is damaged: "));
    }
  }
  ExpectHealthy();
}

TEST_P(CompressionTest, ABombIsRefusedAndItsMemoryComesBack) {
  const int64_t before = server_->devices().memory()->used();
  const std::string bomb = Deflated(std::string(256 << 20, '\0'), GetParam());
  ASSERT_LT(bomb.size(), 2u << 20);
  for (const char* method : {kGetModel, kInfer, kStream}) {
    const Answer answer = Ask(method, bomb);
    EXPECT_EQ(answer.code, GRPC_STATUS_RESOURCE_EXHAUSTED) << method;
    EXPECT_THAT(answer.message, HasSubstr("hold more than the 4194304 of --max_message_bytes"));
  }
  for (const char* method : {kWatch, kReflection}) {
    EXPECT_EQ(Ask(method, Deflated(std::string(1 << 20, '\0'), GetParam())).code, GRPC_STATUS_RESOURCE_EXHAUSTED) << method;
  }
  EXPECT_LT(server_->devices().memory()->peak(), before + (16 << 20));
  ExpectHealthy();
}

TEST_P(CompressionTest, TheFlagAloneMeansNothing) {
  const std::string packed = Deflated("\x0a\x03mlp", GetParam());
  EXPECT_EQ(client_->Ask(kGetModel, packed, GetParam(), GRPC_COMPRESS_NONE).code, GRPC_STATUS_INVALID_ARGUMENT);
  ExpectHealthy();
}

TEST_P(CompressionTest, AMessageThatIsNotFlaggedIsTakenAsItIs) {
  // gRPC's own client compresses it, where that makes it shorter: this does not.
  EXPECT_EQ(client_->Ask(kGetModel, "\x0a\x03mlp", GRPC_COMPRESS_NONE, GetParam()).code, GRPC_STATUS_OK);
}

}  // namespace
}  // namespace gluond::server
