#include "server/transport.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/budget.h"
#include "server/net/grpc_1_51/watched_credentials.h"

namespace gluond::server {
namespace {

constexpr int kPollThreads = 32;
constexpr int kAcceptThreads = 32;
constexpr int kReadBytes = 16 << 10;
constexpr int kHandshakeMilliseconds = 20'000;

// The number of calls that one connection may have open. All connections' calls take a part of the process's memory at
// most.
int StreamsOfConnection(const Limits& limits, const Budget& memory) {
  constexpr int64_t kPart = 8, kStreamBytes = 16 << 10, kFew = 16, kMany = 256;
  return static_cast<int>(std::clamp(memory.limit() / kPart / kStreamBytes / limits.max_connections, kFew, kMany));
}

// Bytes that gRPC has received and given to nobody may be so many: a part of the process's memory, or two large
// messages.
int64_t MostUnread(const Limits& limits, const Budget& memory) {
  constexpr int64_t kPart = 4;
  return std::max(memory.limit() / kPart, 2 * limits.max_message_bytes);
}
constexpr std::chrono::milliseconds kUnreadLook{50};
}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> Transport::Listen(const ServerOptions& options, Runner& runner,
                                                             IdentityFiles& identities,
                                                             const std::vector<std::unique_ptr<RawService>>& services) {
  std::unique_ptr<Transport> transport(new Transport(runner, identities.gatekeeper()));
  RETURN_IF_ERROR(transport->Open(options, identities.tls(), services));
  return transport;
}

absl::Status Transport::Open(const ServerOptions& options, TlsCertificates* tls,
                             const std::vector<std::unique_ptr<RawService>>& services) {
  grpc::ServerBuilder builder;
  // Above this gRPC itself refuses; between the flag and this UnaryCall does, in words that name the flag.
  const int64_t largest = std::min(2 * options.limits.max_message_bytes, 2 * kLargestMessage - 1);
  builder.SetMaxReceiveMessageSize(static_cast<int>(largest));
  builder.SetMaxSendMessageSize(static_cast<int>(largest));
  // A small compressed message could become any size before anybody can refuse it, so gRPC inflates none (wire/inflate.h).
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // Large frames: a tensor arrives in few pieces. A read is one connection's turn, and may hold hundreds of calls.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadBytes);
  // A batch is sent without a wait for the window to be opened further.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 20);
  const int streams = StreamsOfConnection(options.limits, *runner_.memory);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, streams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, Router::kMostReadHeaders);
  LimitConnections(options.connections, &builder);
  // gRPC reads no further on a connection while 10,000 of its pings wait for answers. With strikes it ends the
  // connection, and 16 such connections held a gigabyte (tests/fault, pings).
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // The quota is never reached: there gRPC would end anybody's streams.
  const int64_t most_unread = MostUnread(options.limits, *runner_.memory);
  builder.SetResourceQuota(grpc::ResourceQuota("gluond").Resize(static_cast<size_t>(2 * most_unread)));
  std::vector<std::unique_ptr<AcceptThreads::Acceptor>> acceptors;
  if (!options.address.empty()) {
    ASSIGN_OR_RETURN(listener_, Listener::Open(options.address, options.limits.max_connections, options.unix_users));
    const bool encrypted = options.tls.any() && listener_->port() > 0;
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
    for (int i = 0; i < kAcceptThreads; ++i) {
      const auto credentials =
          WatchedCredentials(encrypted ? tls->NewCredentials() : grpc_insecure_server_credentials_create(), router_.arrivals());
      acceptors.push_back(builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials));
    }
  }
  for (const auto& service : services) router_.Add(*service);
  router_.RegisterAt(builder);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC cannot start a server");
  poll_threads_ = std::make_unique<PollThreads>(std::move(queue), kPollThreads);
  router_.Start(poll_threads_->queue());
  if (listener_ != nullptr) {
    runner_.peers.Guard(
        streams, [this](const std::string& peer, Ending ending) { EndConnection(peer, ending); },
        [this](const std::string& peer) { return listener_->Socket(peer); });
    accept_threads_ = std::make_unique<AcceptThreads>(std::move(acceptors));
    listener_->Start([this](Descriptor connection) { accept_threads_->Accept(std::move(connection)); },
                     [this] { return runner_.peers.Busy(); });
    unread_ = std::make_unique<Unread>(runner_.memory, most_unread);
    unread_sweeper_ = std::make_unique<Sweeper>(
        "unread", [this] { EndThoseWhoKeepTooMuchUnread(); }, kUnreadLook);
  }
  return absl::OkStatus();
}

void Transport::EndThoseWhoKeepTooMuchUnread() {
  const absl::flat_hash_map<std::string, Peers::Given> given = runner_.peers.Look();
  std::vector<Unread::Connection> connections;
  for (Listener::Traffic& traffic : listener_->CountTraffic()) {
    const auto found = given.find(traffic.name);
    connections.push_back({std::move(traffic.name), traffic.received, traffic.sent, found == given.end() ? 0 : found->second.bytes,
                           found == given.end() || found->second.is_renewed,
                           /*has_calls=*/found != given.end()});
  }
  for (const std::string& name : unread_->Look(connections, Unread::Clock::now())) {
    EndConnection(name, Ending::kUnreadMessages);
  }
}

void Transport::EndConnection(const std::string& name, Ending ending) {
  runner_.log.Ended(name, ReasonOf(ending));
  listener_->End(name, ending);
}

std::shared_ptr<grpc::Channel> Transport::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  return server_->InProcessChannel(arguments);
}

void Transport::StopListening() {
  if (listener_ != nullptr) listener_->Stop();
}

void Transport::Shutdown(std::chrono::nanoseconds time) {
  router_.Stop();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(time));
  router_.Wait();
}

}  // namespace gluond::server
