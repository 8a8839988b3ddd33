// SaveSession and OpenSaved: what a session saves is there for others, after its end and after the server's.

#include <filesystem>
#include <fstream>

#include "engine/store/crc32c.h"
#include "tests/server/session_models_fixture.h"

namespace gluond::server {
namespace {

using Stub = v1::SessionService::Stub;
using grpc::StatusCode;

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class SessionSaveTest : public SessionModelsTest {
 protected:
  // Closes the sessions, and kills the server before the next one starts.
  void Restart(const Limits& limits = {}) {
    client_.reset();
    StartServer(limits);
    client_ = std::make_unique<Client>(channel_);
  }
  void Configure(ServerOptions* options) override {
    SessionModelsTest::Configure(options);
    if (!has_store_) options->store_dir.clear();
  }

  static v1::Command SaveSession(const std::string& name, const std::map<std::string, uint64_t>& arrays,
                                 const std::string& key = "", const std::string& manifest = "") {
    v1::Command command;
    command.mutable_save_session()->set_name(name);
    command.mutable_save_session()->set_key(key);
    command.mutable_save_session()->set_manifest(manifest);
    command.mutable_save_session()->mutable_arrays()->insert(arrays.begin(), arrays.end());
    return command;
  }
  static v1::Command OpenSaved(const std::string& name, const std::string& key,
                               const std::map<std::string, uint64_t>& arrays = {}) {
    v1::Command command;
    command.mutable_open_saved()->set_name(name);
    command.mutable_open_saved()->set_key(key);
    command.mutable_open_saved()->mutable_arrays()->insert(arrays.begin(), arrays.end());
    return command;
  }
  static v1::SavedSession Saved(const v1::Reply& reply) {
    for (const v1::Failure& failure : reply.failures()) ADD_FAILURE() << failure.ShortDebugString();
    EXPECT_TRUE(reply.has_saved());
    return reply.saved();
  }
  static std::string Reason(const v1::Reply& reply) {
    google::rpc::ErrorInfo info;
    for (const auto& detail : reply.failures(0).status().details()) (void)detail.UnpackTo(&info);
    return info.reason();
  }
  static std::map<std::string, uint64_t> AllArrays(uint64_t offset = 0) {
    std::map<std::string, uint64_t> arrays;
    for (const Member& member : Members()) {
      arrays[member.name] = member.array + offset;
      arrays[absl::StrCat(member.name, "/mom")] = member.momentum() + offset;
    }
    return arrays;
  }
  std::vector<v1::SavedSession> List() {
    const auto stub = v1::SessionService::NewStub(channel_);
    const auto response = Call(stub, &Stub::ListSavedSessions, "{}");
    return {response.sessions().begin(), response.sessions().end()};
  }
  void Delete(const std::string& name, const std::string& key, StatusCode expected = StatusCode::OK) {
    const auto stub = v1::SessionService::NewStub(channel_);
    v1::DeleteSavedSessionRequest request;
    request.set_name(name);
    request.set_key(key);
    Call(stub, &Stub::DeleteSavedSession, request, expected);
  }
  std::string Folder(const std::string& name) const { return store_ + "/.sessions/" + name; }

  bool has_store_ = true;
};

TEST_F(SessionSaveTest, AnotherSessionGoesOnWithTheSameBits) {
  DefineNet(*client_);
  for (int step = 0; step < 3; ++step) TrainInSession(*client_, step);
  const v1::SavedSession saved = Saved(client_->Ask(SaveSession("run-7", AllArrays(), "", "the client's \u00e9")));
  EXPECT_EQ(saved.key().size(), 32u);
  EXPECT_EQ(saved.version(), 1u);
  EXPECT_EQ(saved.num_arrays(), 16);
  EXPECT_EQ(saved.bytes(), 4 * 2 * (8 * 4 + 5 * 8 + 3 * 8 + 3));
  EXPECT_TRUE(saved.stored());
  EXPECT_TRUE(std::filesystem::exists(Folder("run-7") + "/CURRENT")) << "durable before it is answered";
  for (int step = 3; step < 6; ++step) TrainInSession(*client_, step);
  const auto calm = ArraysOf(*client_);
  Restart();
  DefineNet(*client_);
  const v1::SavedSession asked = Saved(client_->Ask(OpenSaved("run-7", saved.key())));
  EXPECT_EQ(asked.manifest(), "the client's \u00e9");
  EXPECT_EQ(asked.key(), "") << "the key is told once";
  EXPECT_EQ(asked.client_id(), "ann");
  ASSERT_EQ(asked.arrays().size(), 16u);
  EXPECT_THAT(asked.arrays().at("fc1_weight").shape(), ElementsAre(8, 4));
  EXPECT_EQ(asked.arrays().at("fc1_weight").dtype(), v1::Tensor::FLOAT32);
  const v1::SavedSession opened = Saved(client_->Ask(OpenSaved("run-7", saved.key(), AllArrays())));
  EXPECT_EQ(opened.arrays().size(), 16u);
  EXPECT_EQ(opened.grace().seconds(), 24 * 3600);
  for (int step = 3; step < 6; ++step) TrainInSession(*client_, step);
  EXPECT_EQ(ArraysOf(*client_), calm);
}

TEST_F(SessionSaveTest, WhatIsSavedStaysWhateverComes) {
  for (const bool has_store : {true, false}) {
    has_store_ = has_store;
    Restart();
    client_->Put(1, {3}, {1, 2, 3});
    client_->Prepare(1, "_plus_scalar", R"("scalar": "1")");
    const uint64_t asked = client_->Do(SaveSession("run", {{"x", 1}}));
    for (int i = 0; i < 100; ++i) client_->Invoke(1, {1}, {1});  // The output would take the input's memory.
    const std::string key = Saved(client_->Await(asked)).key();
    const std::string now = client_->Bits(1);
    for (uint64_t array : {11, 12}) Saved(client_->Ask(OpenSaved("run", key, {{"x", array}})));
    client_->Invoke(1, {11}, {11});
    EXPECT_EQ(client_->Bits(12), std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40", 12));
    EXPECT_NE(client_->Bits(11), client_->Bits(12));
    EXPECT_EQ(client_->Bits(1), now);
    Delete("run", key);
    EXPECT_EQ(client_->Bits(12).size(), 12u) << "those who have opened it keep their arrays";
  }
}

TEST_F(SessionSaveTest, TheRandomStateGoesOn) {
  const auto draw = [](Client& client, uint64_t array) {
    client.Prepare(1, "_random_uniform", R"("shape": "[4]")");
    client.Invoke(1, {}, {array});
    return client.Bits(array);
  };
  client_->Do(R"("seed": {"seed": "18446744073709551615"})");
  draw(*client_, 1);
  const std::string key = Saved(client_->Ask(SaveSession("run", {{"x", 1}}))).key();
  const std::string next = draw(*client_, 2);
  Client other(channel_);
  draw(other, 1);
  Saved(other.Ask(OpenSaved("run", key)));
  EXPECT_NE(draw(other, 3), next) << "asking leaves the random state";
  Saved(other.Ask(OpenSaved("run", key, {{"x", 1}})));
  EXPECT_EQ(draw(other, 2), next);
}

TEST_F(SessionSaveTest, OnlyWhoKnowsTheKeyOpensReplacesOrDeletes) {
  client_->Put(1, {1}, {1});
  client_->Put(2, {2}, {2, 3});
  const std::string key = Saved(client_->Ask(SaveSession("run", {{"x", 1}}))).key();
  Client other(channel_);
  for (const std::string& wrong : {std::string(), std::string("x"), key + "0", std::string(32, '0')}) {
    const v1::Reply opened = other.Ask(OpenSaved("run", wrong, {{"x", 5}}));
    ExpectFailure(opened, Code::kPermissionDenied, "'run' was saved with another key");
    EXPECT_EQ(Reason(opened), "WRONG_KEY");
    EXPECT_FALSE(opened.has_saved());
    Delete("run", wrong, StatusCode::PERMISSION_DENIED);
    if (!wrong.empty()) ExpectFailure(other.Ask(SaveSession("run", {}, wrong)), Code::kPermissionDenied, "another key");
  }
  ExpectFailure(other.Fetch(5), Code::kPermissionDenied, "another key");
  ExpectFailure(other.Ask(SaveSession("run", {})), Code::kAlreadyExists, "there is a saved session 'run' already");
  const v1::SavedSession again = Saved(client_->Ask(SaveSession("run", {{"y", 2}}, key)));
  EXPECT_EQ(again.version(), 2u);
  EXPECT_EQ(again.key(), key);
  ExpectFailure(other.Ask(OpenSaved("run", key, {{"x", 5}})), Code::kNotFound, "no array 'x' was saved");
  v1::Command stale = OpenSaved("run", key, {{"y", 5}});
  stale.mutable_open_saved()->set_expected_version(1);
  const v1::Reply aborted = other.Ask(stale);
  ExpectFailure(aborted, Code::kAborted, "has version 2, expected 1");
  EXPECT_EQ(Reason(aborted), "VERSION_CHANGED");
  stale.mutable_open_saved()->set_expected_version(2);
  Saved(other.Ask(stale));
  EXPECT_EQ(other.Bits(5).size(), 8u);
  Delete("run", key);
  ExpectFailure(other.Ask(OpenSaved("run", key)), Code::kNotFound, "there is no saved session 'run'");
  Delete("run", key, StatusCode::NOT_FOUND);
  EXPECT_NE(Saved(other.Ask(SaveSession("run", {}))).key(), key);
}

TEST_F(SessionSaveTest, AClientMayChooseTheKeyOfANewName) {
  client_->Put(1, {1}, {1});
  const std::string key(16, 'k');
  for (const std::string& wrong : {std::string(15, 'k'), std::string(129, 'k')}) {
    ExpectFailure(client_->Ask(SaveSession("run", {{"x", 1}}, wrong)), Code::kInvalidArgument, "want 16 to 128");
  }
  for (uint64_t version = 1; version <= 2; ++version) {  // The second as a client that has missed the answer.
    const v1::SavedSession saved = Saved(client_->Ask(SaveSession("run", {{"x", 1}}, key)));
    EXPECT_EQ(saved.key(), key);
    EXPECT_EQ(saved.version(), version);
  }
  Delete("run", key);
  EXPECT_EQ(Saved(client_->Ask(SaveSession("run", {{"x", 1}}, key))).version(), 1u);
}

TEST_F(SessionSaveTest, NothingIsSavedWhereAnArrayHasNoValue) {
  client_->Put(1, {2}, {1, 2});
  client_->Put(2, {3}, {1, 2, 3});
  client_->Prepare(1, "elemwise_add");
  client_->Invoke(1, {1, 2}, {3});
  EXPECT_THAT(client_->Ask(SaveSession("run", {{"x", 1}, {"sum", 3}})).failures(0).status().message(), HasSubstr("[2]"));
  ExpectFailure(client_->Ask(SaveSession("run", {{"x", 1}, {"gone", 77}})), Code::kInvalidArgument, "'gone'");
  ExpectFailure(client_->Ask(SaveSession("no/name", {{"x", 1}})), Code::kInvalidArgument, "no/name");
  ExpectFailure(client_->Ask(SaveSession("run", {{"x", 1}}, "", std::string((4 << 20) + 1, 'm'))), Code::kInvalidArgument,
                "manifest");
  ExpectFailure(client_->Ask(OpenSaved("run", "", {{"x", 0}})), Code::kInvalidArgument, "0");
  EXPECT_TRUE(List().empty());
}

TEST_F(SessionSaveTest, ListsAreOfTheNextServerToo) {
  client_->Put(1, {2}, {1, 2});
  const std::string key = Saved(client_->Ask(SaveSession("b", {{"x", 1}}))).key();
  Saved(client_->Ask(SaveSession("a", {})));
  Restart();
  const std::vector<v1::SavedSession> list = List();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name(), "a");
  EXPECT_EQ(list[1].name(), "b");
  EXPECT_EQ(list[1].bytes(), 8);
  EXPECT_EQ(list[1].num_arrays(), 1);
  EXPECT_EQ(list[1].key() + list[1].manifest(), "") << "secrets";
  EXPECT_GT(list[1].created().seconds(), 1'700'000'000);
  const auto stub = v1::SessionService::NewStub(channel_);
  const auto page = Call(stub, &Stub::ListSavedSessions, R"({"page_size": 1})");
  EXPECT_EQ(page.sessions_size(), 1);
  EXPECT_FALSE(page.next_page_token().empty());
  Delete("b", key);
  Restart();
  EXPECT_EQ(List().size(), 1u);
}

TEST_F(SessionSaveTest, ADamagedOneIsLoggedAndLeavesTheOthers) {
  client_->Put(1, {2}, {1, 2});
  const std::string values = Saved(client_->Ask(SaveSession("values", {{"x", 1}}))).key();
  Saved(client_->Ask(SaveSession("notes", {{"x", 1}})));
  client_.reset();
  StopServer();
  std::ofstream(Folder("values") + "/v1/parameters.safetensors", std::ios::app) << "x";
  std::ofstream(Folder("notes") + "/v1/manifest.json", std::ios::app) << "x";
  log_.Take();
  Restart();
  std::string logged;
  for (const std::string& line : log_.Take()) logged += line;
  EXPECT_THAT(logged, HasSubstr("the saved session 'notes' was not loaded and stays on the disk"));
  ASSERT_EQ(List().size(), 1u);
  EXPECT_THAT(client_->Ask(OpenSaved("values", values, {{"x", 5}})).failures(0).status().code(), static_cast<int>(Code::kDataLoss));
  client_->Put(1, {2}, {1, 2});
  const std::string key = Saved(client_->Ask(SaveSession("notes", {{"x", 1}}))).key();
  Saved(client_->Ask(SaveSession("values", {{"x", 1}}, values)));
  for (const auto& [name, its] : {std::pair("notes", key), std::pair("values", values)}) {
    Saved(client_->Ask(OpenSaved(name, its, {{"x", 6}})));
    EXPECT_EQ(client_->Bits(6), client_->Bits(1));
  }
}

TEST_F(SessionSaveTest, NobodyReplacesWhatOnlyANewerServerReads) {
  client_->Put(1, {2}, {1, 2});
  const std::string key = Saved(client_->Ask(SaveSession("run", {{"x", 1}}))).key();
  client_.reset();
  StopServer();
  const std::string path = Folder("run") + "/v1/manifest.json", before = ReadText(path);
  std::string text = before;
  const std::string version = R"("format_version":1,"key_hash")";
  ASSERT_NE(text.find(version), std::string::npos) << text;
  text.replace(text.find(version), version.size(), R"("format_version":9,"key_hash")");
  std::ofstream(path) << text;
  std::ofstream(Folder("run") + "/CURRENT") << "1 " << Crc32c(text) << "\n";
  Restart();
  EXPECT_TRUE(List().empty());
  for (const std::string& told : {key, std::string(), std::string(32, 'k')}) {
    const Code refused = told.empty() ? Code::kAlreadyExists : Code::kFailedPrecondition;
    client_->Put(1, {2}, {1, 2});
    ExpectFailure(client_->Ask(SaveSession("run", {{"x", 1}}, told)), refused, "choose another name");
    ExpectFailure(client_->Ask(OpenSaved("run", told)), Code::kFailedPrecondition, "this server cannot read it");
    Delete("run", told, StatusCode::FAILED_PRECONDITION);
  }
  EXPECT_EQ(ReadText(path), text);
}

TEST_F(SessionSaveTest, NoFileHasTheKey) {
  const std::string key = Saved(client_->Ask(SaveSession("run", {}, "my own secret key"))).key();
  for (const auto& file : std::filesystem::recursive_directory_iterator(store_)) {
    if (!file.is_regular_file()) continue;
    EXPECT_EQ(ReadText(file.path().string()).find(key), std::string::npos) << file.path();
  }
}

TEST_F(SessionSaveTest, TheAnswersWordsAreChargedToTheMemory) {
  Limits limits;
  limits.max_memory_bytes = int64_t{32} << 20;
  Restart(limits);
  const std::string manifest(3 << 20, 'm');
  const std::string key = Saved(client_->Ask(SaveSession("run", {}, "", manifest))).key();
  client_->Prepare(1, "_zeros", R"("shape": "[1048576]")");
  uint64_t array = 1;
  v1::Reply last;
  while (last.failures().empty() && array < 100) {
    client_->Invoke(1, {}, {++array});
    last = client_->Ask(absl::StrCat(R"("describe": {"arrays": [)", array, "]}"));
  }
  ExpectFailure(last, Code::kResourceExhausted, "4194304 bytes wanted");
  const auto free = [this](uint64_t array) { client_->Do(absl::StrCat(R"("free": {"arrays": [)", array, "]}")); };
  const v1::Reply refused = client_->Ask(OpenSaved("run", key));
  ASSERT_EQ(refused.failures_size(), 1);
  ExpectFailure(refused, Code::kResourceExhausted, "--max_memory_bytes");
  for (; array > 1; --array) free(array);
  EXPECT_EQ(Saved(client_->Ask(OpenSaved("run", key))).manifest(), manifest);
}

TEST_F(SessionSaveTest, LimitsHold) {
  Limits limits;
  limits.max_saved_sessions = 2;
  limits.max_session_bytes = 10'000;
  limits.max_named_session_bytes = 1500;
  for (const bool has_store : {true, false}) {
    has_store_ = has_store;
    Restart(limits);
    client_->Put(1, {100}, std::vector<float>(100, 1.f));
    const v1::SavedSession first = Saved(client_->Ask(SaveSession("a", {{"x", 1}})));
    EXPECT_EQ(first.stored(), has_store);
    Saved(client_->Ask(SaveSession("b", {{"x", 1}})));
    ExpectFailure(client_->Ask(SaveSession("c", {})), Code::kResourceExhausted, "--max_saved_sessions");
    const v1::Reply more = client_->Ask(SaveSession("a", {{"x", 1}, {"y", 1}}, first.key()));
    if (has_store) Saved(more);
    if (!has_store) ExpectFailure(more, Code::kResourceExhausted, "--max_named_session_bytes");
    EXPECT_EQ(List().size(), 2u);
    // A session that opens more than it may hold fails; it had 400 bytes.
    if (has_store) {
      v1::Reply opened;
      for (uint64_t array = 10; array < 40 && opened.failures().empty(); ++array) {
        opened = client_->Ask(OpenSaved("a", first.key(), {{"x", array}}));
      }
      ExpectFailure(opened, Code::kResourceExhausted, "--max_session_bytes");
      EXPECT_EQ(client_->Bits(10), client_->Bits(1));
    }
  }
}

}  // namespace
}  // namespace gluond::server
