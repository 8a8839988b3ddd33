// A shared operator belongs to who shared it: others' graphs are computed by its owner or by nobody, and a published version
// by the one who was the owner when it was published.

#include <fstream>
#include <future>

#include "gluond/v1/serving.grpc.pb.h"
#include "proto/inference/grpc_service.grpc.pb.h"
#include "server/custom/scope.h"
#include "server/identity/secret.h"
#include "tests/server/custom_host_fixture.h"

namespace gluond::server {
namespace {

using grpc::StatusCode;

constexpr char kKey[] = "a key that alice alone knows";

// Identities with tokens of their own; the models' stubs are this process's.
class CustomOwnerTest : public CustomTest {
 protected:
  void Configure(ServerOptions* options) override {
    CustomTest::Configure(options);
    options->audit = audit_.sink();
    const std::string path = testing::TempDir() + "/identities";
    std::ofstream file(path);
    for (const std::string name : {"alice", "eve", "root"}) {
      file << name << (name == "root" ? " admin" : " train") << " sha256:" << HashOf(TokenOf(name)) << "\n";
    }
    options->identities = path;
  }
  static std::string TokenOf(const std::string& name) { return "the token of " + name; }

  // A client of this name, which shares `square`.
  std::unique_ptr<Provider> Sharing(const std::string& name, const std::string& scope = "", const std::string& key = "",
                                    Provider::Answerer answerer = &RightAnswer) {
    return std::make_unique<Provider>(address(), std::vector<std::string>{"square"}, std::move(answerer), scope,
                                      /*shared=*/true, key, TokenOf(name));
  }
  // The reason why an offer, or a release, of `square` is refused; empty: it is taken.
  std::string Refusal(HostStreamClient& client, bool releases = false) {
    EXPECT_TRUE(releases ? client.Release("square") : client.Offer("square"));
    v1::HostResponse response;
    while (client.Read(&response)) {
      if (response.refused_size() > 0) return response.refused(0).reason();
      if (response.offered_size() + response.given_back_size() > 0) return "";
    }
    return "the stream has ended";
  }
  std::string Refusal(const std::string& name) {
    HostStreamClient client(address(), TokenOf(name));
    EXPECT_TRUE(client.Open("a secret scope of " + name));
    return Refusal(client);
  }
  grpc::Status Predict(const std::string& name) {
    grpc::ClientContext context;
    v1::PredictResponse response;
    return models_->Predict(&context, Json<v1::PredictRequest>(Data(name)), &response);
  }
  // Until the server has seen a stream's end.
  grpc::Status PredictWithoutClient(const std::string& name) {
    grpc::Status status = Predict(name);
    while (status.ok() || status.error_message().find("has gone") != std::string::npos) status = Predict(name);
    return status;
  }
  static void ExpectIn(const std::string& part, const std::string& text) { EXPECT_NE(text.find(part), std::string::npos) << text; }

  Log audit_;
};

TEST_F(CustomOwnerTest, ASharedNameIsItsOwnersAlsoWhileHeIsAway) {
  auto alice = Sharing("alice");
  DefineTrained("m");
  ExpectIn("the shared operator 'square' belongs to 'alice'", Refusal("eve"));
  EXPECT_TRUE(Predict("m").ok());
  EXPECT_EQ(alice->Count(&v1::Callback::has_forward), 1u);
  EXPECT_TRUE(alice->taken_over().empty());
  alice.reset();
  const grpc::Status away = PredictWithoutClient("m");
  EXPECT_EQ(away.error_code(), StatusCode::UNAVAILABLE);
  ExpectIn("it is that of 'alice'", away.error_message());
  ExpectIn("belongs to 'alice'", Refusal("eve"));
  const auto again = Sharing("alice");  // Another program of alice's: its scope is another one.
  EXPECT_TRUE(Predict("m").ok());
  EXPECT_EQ(again->Count(&v1::Callback::has_forward), 1u);
}

TEST_F(CustomOwnerTest, WhoShowsTheOwnersKeyOrIsAnAdminTakesItOver) {
  const auto alice = Sharing("alice", ScopeOf(kKey), kKey);
  DefineTrained("m");
  const auto eve = Sharing("eve", ScopeOf(kKey), kKey);
  EXPECT_TRUE(Predict("m").ok());
  EXPECT_EQ(eve->Count(&v1::Callback::has_forward), 1u);
  ExpectIn("belongs to 'eve'", Refusal("alice"));
  const auto root = Sharing("root");
  EXPECT_TRUE(Predict("m").ok());
  EXPECT_EQ(root->Count(&v1::Callback::has_forward), 1u);
  EXPECT_EQ(eve->taken_over().count("square"), 1u);
}

TEST_F(CustomOwnerTest, AReleasedNameIsAnybodys) {
  auto alice = Sharing("alice");
  alice.reset();
  HostStreamClient eve(address(), TokenOf("eve")), other(address(), TokenOf("alice"));
  EXPECT_TRUE(eve.Open("a secret scope of eve"));
  EXPECT_TRUE(other.Open("another scope of alice"));
  ExpectIn("belongs to 'alice'", Refusal(eve, /*releases=*/true));
  EXPECT_EQ(Refusal(other, /*releases=*/true), "");
  ExpectIn("nobody shares an operator 'square'", Refusal(other, /*releases=*/true));
  EXPECT_EQ(Refusal(eve), "");
  ExpectIn("belongs to 'eve'", Refusal(other));
}

TEST_F(CustomOwnerTest, TheStreamsOfOneIdentityStandInForEachOther) {
  const auto first = Sharing("alice");
  auto second = Sharing("alice");
  DefineTrained("m");
  EXPECT_TRUE(Predict("m").ok());
  EXPECT_EQ(first->taken_over().count("square"), 1u);
  EXPECT_EQ(second->Count(&v1::Callback::has_forward), 1u);
  second.reset();
  while (first->Count(&v1::Callback::has_forward) == 0) (void)Predict("m");
}

TEST_F(CustomOwnerTest, BothPassesAreOneClients) {
  std::promise<void> may_answer;
  const std::shared_future<void> answer = may_answer.get_future().share();
  const auto first = Sharing("alice", "", "", [&](const v1::Callback& callback) {
    if (callback.has_forward()) answer.wait();
    return RightAnswer(callback);
  });
  DefineTrained("m");
  const auto step = StartStep("m", 0);
  first->WaitFor(1, &v1::Callback::has_forward);
  const auto second = Sharing("alice");
  may_answer.set_value();
  EXPECT_TRUE(step->Wait().ok()) << step->status.error_message();
  EXPECT_EQ(first->taken_over().count("square"), 1u);
  EXPECT_EQ(first->Count(&v1::Callback::has_backward), 1u);
  EXPECT_EQ(second->Count(&v1::Callback::has_backward), 0u);
  Step("m", 1);
  EXPECT_EQ(second->Passes(), (std::pair<size_t, size_t>(1, 1)));
}

TEST_F(CustomOwnerTest, TheAuditLogSeesWhoSharesWhat) {
  auto alice = Sharing("alice");
  (void)Refusal("eve");
  const auto root = Sharing("root");
  EXPECT_TRUE(root->stream().Release("square"));
  EXPECT_EQ(Refusal("eve"), "");
  std::string all;
  for (const std::string& line : audit_.Take()) all += line;
  const auto line = [](const char* caller, const char* command, const char* code) {
    return absl::StrCat("\"caller\":\"", caller, "\",\"method\":\"/gluond.v1.OperatorService/HostOperators\",\"command\":\"",
                        command, "\",\"target\":\"square\",\"code\":\"", code, "\"");
  };
  ExpectIn(line("alice", "Share", "OK"), all);
  ExpectIn(line("eve", "Share", "PERMISSION_DENIED"), all);
  ExpectIn(line("root", "TakeOver", "OK"), all);
  ExpectIn(line("root", "Release", "OK"), all);
  ExpectIn(line("eve", "Share", "OK"), all);
}

// Versions.

class PublishedOperatorTest : public CustomOwnerTest {
 protected:
  void Publish(const std::string& name, StatusCode expected = StatusCode::OK) {
    const auto serving = v1::ServingService::NewStub(channel_);
    Call(serving, &v1::ServingService::Stub::PublishModel, R"({"model": ")" + name + R"("})", expected);
  }
  grpc::Status Infer() {
    const auto stub = inference::GRPCInferenceService::NewStub(channel_);
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    return stub->ModelInfer(&context, Json<inference::ModelInferRequest>(R"({"model_name": "m", "inputs": [{"name": "data",
        "datatype": "FP32", "shape": [1, 4], "contents": {"fp32_contents": [1, 2, 3, 4]}}]})"),
                            &response);
  }
};

TEST_F(PublishedOperatorTest, IsComputedByWhoeverWasItsOwnerThenAndByNobodyElse) {
  auto alice = Sharing("alice");
  DefineTrained("m");
  Publish("m");
  EXPECT_TRUE(Infer().ok());
  auto root = Sharing("root");  // Takes the name over, and the working model's calls with it.
  EXPECT_TRUE(Predict("m").ok());
  EXPECT_GE(root->Count(&v1::Callback::has_forward), 1u);
  const size_t seen = root->Seen().size();
  const grpc::Status refused = Infer();
  EXPECT_EQ(refused.error_code(), StatusCode::UNAVAILABLE);
  ExpectIn("its version was published with that of 'alice'", refused.error_message());
  EXPECT_EQ(root->Seen().size(), seen);
  Publish("m");
  EXPECT_TRUE(Infer().ok());
}

TEST_F(PublishedOperatorTest, ARestartForgetsNotWhoseItIs) {
  auto alice = Sharing("alice");
  DefineTrained("m");
  Publish("m");
  alice.reset();
  StartServer({});
  ExpectIn("belongs to 'alice'", Refusal("eve"));
  EXPECT_EQ(Infer().error_code(), StatusCode::UNAVAILABLE);
  const auto root = Sharing("root");
  EXPECT_EQ(Infer().error_code(), StatusCode::UNAVAILABLE);
  EXPECT_TRUE(root->Seen().empty());
  EXPECT_TRUE(root->stream().Release("square"));
  alice = Sharing("alice");
  EXPECT_TRUE(Infer().ok());
}

TEST_F(PublishedOperatorTest, NothingIsPublishedThatNobodyComputes) {
  {
    const auto alice = Sharing("alice");
    DefineTrained("m");
    EXPECT_TRUE(alice->stream().Release("square"));
    while (Predict("m").ok()) {
    }
  }
  Publish("m", StatusCode::UNAVAILABLE);
  ExpectMessage("custom operator 'square': no client that computes it is connected; its client must share it");
}

// A server that knows no identities.

class CustomKeyTest : public CustomOwnerTest {
 protected:
  void Configure(ServerOptions* options) override { CustomTest::Configure(options); }
};

TEST_F(CustomKeyTest, ANameIsTheKeysThatSharedItWhileItsStreamIsOpen) {
  auto first = std::make_unique<Provider>(address(), std::vector<std::string>{"square"}, &RightAnswer, ScopeOf(kKey),
                                          /*shared=*/true, kKey);
  DefineTrained("m");
  HostStreamClient other(address());
  EXPECT_TRUE(other.Open("another secret scope"));
  ExpectIn("belongs to a connected client", Refusal(other));
  // Its client comes back before the server has seen it go, and has its names before it shares any.
  const auto resumed = std::make_unique<HostStreamClient>(address());
  EXPECT_TRUE(resumed->Open(ScopeOf(kKey), "test", kKey));
  first->WaitUntil([] { return false; });
  ExpectIn("belongs to a connected client", Refusal(other));
  EXPECT_EQ(Refusal(*resumed), "");
  resumed->Cancel();
  while (!Refusal(other).empty()) {
  }
}

TEST_F(CustomKeyTest, AVersionIsComputedByWhoeverSharesItsOperator) {
  const auto serving = [this] { return v1::ServingService::NewStub(channel_); };
  auto first = std::make_unique<Provider>(address(), std::vector<std::string>{"square"});
  DefineTrained("m");
  Call(serving(), &v1::ServingService::Stub::PublishModel, R"({"model": "m"})");
  first.reset();
  Provider next(address(), {"square"});
  Call(serving(), &v1::ServingService::Stub::PublishModel, R"({"model": "m"})");
}

}  // namespace
}  // namespace gluond::server
