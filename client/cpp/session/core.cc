#include "client/cpp/session/core.h"

#include <errno.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/channel.h"
#include "client/cpp/custom/host.h"
#include "client/cpp/session/local_server.h"
#include "client/cpp/session/mode.h"
#include "client/cpp/session/pipeline.h"
#include "client/cpp/session/transfer.h"
#include "client/cpp/session/wire.h"
#include "client/cpp/value_message.h"
#include "gluond/status_macros.h"
#include "gluond/v1/command.pb.h"

namespace gluond::client {
namespace {

constexpr size_t kMostCalls = 8192;

std::mutex default_mutex;
std::shared_ptr<SessionCore>& DefaultSession() {
  static auto* session = new std::shared_ptr<SessionCore>;
  return *session;
}
thread_local std::shared_ptr<SessionCore> session_of_thread;

// Ends the default session with the program.
void EndDefault() {
  std::shared_ptr<SessionCore> last;
  std::lock_guard<std::mutex> lock(default_mutex);
  last.swap(DefaultSession());
}

void AppendKey(const Value& value, std::string* key) {
  key->push_back(static_cast<char>('0' + value.is.index()));
  if (const bool* truth = std::get_if<bool>(&value.is)) {
    key->push_back(*truth ? '1' : '0');
  } else if (const double* number = std::get_if<double>(&value.is)) {
    key->append(reinterpret_cast<const char*>(number), sizeof(*number));
  } else if (const std::string* text = std::get_if<std::string>(&value.is)) {
    AppendVarint(text->size(), key);
    key->append(*text);
  } else if (const Value::Tuple* tuple = std::get_if<Value::Tuple>(&value.is)) {
    AppendVarint(tuple->size(), key);
    for (const Value& each : *tuple) AppendKey(each, key);
  } else if (const Attributes* fields = std::get_if<Attributes>(&value.is)) {
    AppendVarint(fields->size(), key);
    for (const auto& [name, field] : *fields) AppendKey(Value(name), key), AppendKey(field, key);
  }
}

std::string KeyOf(absl::string_view op, const Attributes& attributes, size_t inputs, int outputs) {
  std::string key;
  key.reserve(op.size() + 8 + 24 * attributes.size());
  key.append(op.data(), op.size());
  key.push_back('\0');
  AppendVarint(inputs, &key);
  AppendVarint(static_cast<uint64_t>(outputs + 1), &key);
  for (const auto& [name, value] : attributes) {
    AppendVarint(name.size(), &key);
    key.append(name);
    AppendKey(value, &key);
  }
  return key;
}

// The credential of a key: only who knows the key can show it.
std::string ScopeOf(const std::string& key) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(key.data(), key.size(), digest, &size, EVP_sha256(), nullptr);
  return absl::StrCat("key:", absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), 16)));
}

std::string ClientId(const Options& options) {
  return options.client_id.empty() ? absl::StrCat(program_invocation_short_name, ":", getpid()).substr(0, 128) : options.client_id;
}

// Makes a connection for one stream.
std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>()> NewSessionChannel(const std::string& address,
                                                                                  const Options& options) {
  return [address, access = options.access] {
    grpc::ChannelArguments arguments = NewChannelArguments();
    arguments.SetInt("grpc.http2.max_frame_size", 1 << 20);
    arguments.SetInt("grpc.http2.lookahead_bytes", 1 << 20);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return NewChannel(address, access, arguments);
  };
}

std::mutex key_mutex;
std::string& KeyOfProgram() {
  static auto* key = new std::string([] {
    std::random_device random;
    return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
  }());
  return *key;
}

}  // namespace

std::string SessionCore::Key() {
  std::lock_guard<std::mutex> lock(key_mutex);
  return KeyOfProgram();
}

void SessionCore::SetKey(std::string key) {
  std::lock_guard<std::mutex> lock(key_mutex);
  KeyOfProgram() = std::move(key);
}

absl::StatusOr<std::shared_ptr<SessionCore>> SessionCore::Connect(const std::string& address, Options options, std::string device,
                                                                  std::shared_ptr<LocalServer> server) {
  std::shared_ptr<SessionCore> core(new SessionCore(address, std::move(options)));
  core->server_ = std::move(server);
  Pipeline::Settings settings;
  settings.address = address;
  settings.client_id = ClientId(core->options_);
  core->key_ = Key();
  core->scope_ = ScopeOf(core->key_);
  settings.host = core->scope_;
  settings.device = std::move(device);
  settings.new_channel = NewSessionChannel(address, core->options_);
  if (core->server_ != nullptr) settings.check_server = [server = core->server_] { return server->Check(); };
  GLUOND_ASSIGN_OR_RETURN(core->pipeline_, Pipeline::Open(std::move(settings)));
  return core;
}

absl::StatusOr<std::shared_ptr<SessionCore>> SessionCore::Current() {
  if (session_of_thread != nullptr) return session_of_thread;
  std::lock_guard<std::mutex> lock(default_mutex);
  std::shared_ptr<SessionCore>& session = DefaultSession();
  if (session != nullptr) return session;
  const char* address = std::getenv("GLUOND_ADDRESS");
  std::shared_ptr<LocalServer> server;
  if (address == nullptr || *address == '\0') {
    GLUOND_ASSIGN_OR_RETURN(server, LocalServer::Start());
  }
  GLUOND_ASSIGN_OR_RETURN(session, Connect(server != nullptr ? server->address() : address, Options(), "", server));
  static const bool ends = std::atexit(EndDefault) == 0;
  (void)ends;
  return session;
}

std::shared_ptr<SessionCore> SessionCore::Exchange(std::shared_ptr<SessionCore> of_thread) {
  session_of_thread.swap(of_thread);
  return of_thread;
}

void SessionCore::SetDefault(std::shared_ptr<SessionCore> core) {
  static const bool ends = std::atexit(EndDefault) == 0;
  (void)ends;
  std::lock_guard<std::mutex> lock(default_mutex);
  DefaultSession().swap(core);
}

Host& SessionCore::host() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (host_ == nullptr) {
    host_ = Host::Of(shared_from_this(), {address_, scope_, key_, ClientId(options_), NewSessionChannel(address_, options_),
                                          pipeline_->most_bytes(), static_cast<size_t>(std::max(options_.callback_threads, 1))});
  }
  return *host_;
}

SessionCore::SessionCore(std::string address, Options options) : address_(std::move(address)), options_(std::move(options)) {}

SessionCore::~SessionCore() {
  // A callback may have the last handle. Its thread cannot wait for itself.
  if (!around_wait) return;
  calls_.clear();
  std::thread([server = std::move(server_), pipeline = std::shared_ptr<Pipeline>(std::move(pipeline_)),
               host = std::move(host_)]() mutable {
    host.reset();
    pipeline.reset();
    server.reset();
  }).detach();
}

absl::StatusOr<Client> SessionCore::client() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!client_.has_value()) {
    GLUOND_ASSIGN_OR_RETURN(client_, Client::Connect(address_, options_));
  }
  return *client_;
}

absl::StatusOr<std::shared_ptr<const PreparedCall>> SessionCore::CallOf(absl::string_view op, const Attributes& attributes,
                                                                        size_t inputs, int outputs,
                                                                        const v1::CustomOperatorSpec* custom, Place place) {
  std::string key = KeyOf(op, attributes, inputs, outputs);
  if (custom != nullptr) key += custom->SerializeAsString();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(key);
    if (found != calls_.end()) return found->second;
  }
  v1::Command::Prepare prepare;
  prepare.set_op(std::string(op));
  Fill(attributes, prepare.mutable_attributes());
  if (custom != nullptr) *prepare.mutable_custom() = *custom;
  int count = outputs;
  if (outputs == kAskOutputs) {
    v1::Command::DescribeCall describe;
    describe.set_op(prepare.op());
    *describe.mutable_attributes() = prepare.attributes();
    describe.set_num_inputs(static_cast<uint32_t>(inputs));
    if (custom != nullptr) *describe.mutable_custom() = *custom;
    GLUOND_ASSIGN_OR_RETURN(const v1::Reply reply,
                            pipeline_->Request(CommandOf(v1::Command::kDescribeCallFieldNumber, describe), place));
    count = reply.call().outputs_size();
  }
  const auto call = std::make_shared<PreparedCall>(*pipeline_, NewCall());
  call->outputs = count;
  prepare.set_call(call->name);
  GLUOND_RETURN_IF_ERROR(pipeline_->Submit(CommandOf(v1::Command::kPrepareFieldNumber, prepare), place));
  std::shared_ptr<const PreparedCall> replaced;  // Freed without the lock.
  std::lock_guard<std::mutex> lock(mutex_);
  if (calls_.size() >= kMostCalls) {
    replaced = std::move(calls_.begin()->second);
    calls_.erase(calls_.begin());
  }
  calls_[std::move(key)] = call;
  return call;
}

PreparedCall::~PreparedCall() { pipeline.FreeCall(name); }

ArrayState::~ArrayState() {
  if (session != nullptr && is_sent) session->pipeline().FreeArray(name);
}

absl::StatusOr<std::shared_ptr<const v1::Expansion>> SessionCore::Expand(const std::string& expand, Place place) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = expansions_.find(expand);
    if (found != expansions_.end()) return found->second;
  }
  GLUOND_ASSIGN_OR_RETURN(v1::Reply reply,
                          pipeline_->Request(CommandOf(v1::Command::kExpandFieldNumber, absl::string_view(expand)), place));
  auto expansion = std::make_shared<v1::Expansion>(std::move(*reply.mutable_expansion()));
  std::lock_guard<std::mutex> lock(mutex_);
  if (expansions_.size() >= kMostCalls) expansions_.clear();
  expansions_[expand] = expansion;
  return expansion;
}

NDArray NewArray(const std::shared_ptr<SessionCore>& session) {
  return NDArray(std::make_shared<ArrayState>(session, session->NewArray()));
}

NDArray LocalArray(const std::shared_ptr<SessionCore>& session, Tensor values, const std::string& device) {
  NDArray array = NewArray(session);
  ArrayState& state = *array.state();
  state.shape = values.shape();
  state.dtype = values.dtype();
  state.device = device;
  state.here = std::move(values);
  state.is_sent = false;
  return array;
}

absl::Status ErrorOf(const NDArray& array) {
  if (!array.is_defined()) {
    return absl::InvalidArgumentError("an array that is not defined (default-constructed) was used; want an array");
  }
  ArrayState& state = *array.state();
  std::lock_guard<std::mutex> lock(state.mutex);
  return state.error;
}

namespace {

// Has the server know the values.
absl::Status Send(ArrayState& state) {
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.is_sent) return absl::OkStatus();
  state.is_sent = true;
  return Put(*state.session, state.name, *state.dtype, *state.shape, state.here->bytes(), state.device, Place{});
}

}  // namespace

absl::StatusOr<std::shared_ptr<SessionCore>> SessionOf(absl::string_view what, absl::Span<const NDArray> arrays) {
  std::shared_ptr<SessionCore> session;
  for (const NDArray& array : arrays) {
    GLUOND_RETURN_IF_ERROR(ErrorOf(array));
    GLUOND_RETURN_IF_ERROR(Send(*array.state()));
    if (session == nullptr) session = array.state()->session;
    if (array.state()->session != session) {
      return absl::InvalidArgumentError(absl::StrCat(what, ": the arrays belong to two sessions, with ", session->address(),
                                                     " and with ", array.state()->session->address(),
                                                     "; hand the values over: NDArray(*x.ToTensor())"));
    }
  }
  return session;
}

absl::Status Located(absl::Status error, Place place) {
  if (error.ok() || place.line == 0 ||
      absl::string_view(error.message()).find("The call that failed: ") != absl::string_view::npos) {
    return error;
  }
  absl::Status located(error.code(), absl::StrCat(error.message(), "\nThe call that failed: ", place.file, ":", place.line));
  error.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { located.SetPayload(url, payload); });
  return located;
}

}  // namespace gluond::client
