// libgluond_stream.so: the streams of the Python client, which gluond/_wire/native_stream.py calls by ctypes. A call that may wait
// gives the interpreter's lock back, as ctypes does; none is interrupted, so a KeyboardInterrupt leaves nothing of gRPC's locked.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "client/cpp/channel.h"
#include "client/cpp/stream.h"
#include "grpc/grpc.h"

namespace {

using ::gluond::client::Stream;

// The text, cut to what there is room for, with a zero behind it.
void Tell(absl::string_view text, char* to, size_t room) { to[text.copy(to, room - 1)] = 0; }

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments = gluond::client::NewChannelArguments();
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 20);
  // One channel, one connection: another stream shares nothing with it, not after a fork either.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

std::chrono::milliseconds Milliseconds(double seconds) { return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)); }

}  // namespace

// The names end with the version of this interface.
extern "C" {

// Paths of Access, empty where there is none. Null: `error` says why.
Stream* gluond_stream_open_2(const char* address, const char* tls_ca, const char* tls_cert, const char* tls_key,
                             const char* token_file, const char* method, const char* hello, size_t size, char* error, size_t room) {
  // gRPC's core stays: it ends incompletely where it ends, and a fork's child would share what is left of it.
  static const bool is_there = (grpc_init(), true);
  static_cast<void>(is_there);
  auto channel = gluond::client::NewChannel(address, {tls_ca, tls_cert, tls_key, token_file}, Arguments());
  if (!channel.ok()) {
    Tell(channel.status().message(), error, room);
    return nullptr;
  }
  return new Stream(*std::move(channel), method, absl::string_view(hello, size));
}

void gluond_stream_free_2(Stream* stream) { delete stream; }

int64_t gluond_stream_write_2(Stream* stream, const char* message, size_t size) {
  return stream->Write(absl::string_view(message, size));
}

void gluond_stream_say_when_written_2(Stream* stream) { stream->SayWhenWritten(); }

void gluond_stream_finish_2(Stream* stream) { stream->Finish(); }

void gluond_stream_cancel_2(Stream* stream) { stream->Cancel(); }

void gluond_stream_kick_2(Stream* stream) { stream->Kick(); }

int64_t gluond_stream_lead_2(Stream* stream, double seconds) { return stream->Lead(Milliseconds(seconds)); }

int64_t gluond_stream_attend_2(Stream* stream, double seconds, double pause) {
  return stream->Attend(Milliseconds(seconds), Milliseconds(pause));
}

int64_t gluond_stream_copy_2(Stream* stream, char* to, int64_t size) { return stream->Copy(to, size); }

void gluond_stream_drop_2(Stream* stream, int64_t number) { stream->Drop(number); }

// Returns gRPC's code.
int gluond_stream_status_2(Stream* stream, char* details, size_t room) {
  const grpc::Status status = stream->status();
  Tell(status.error_message(), details, room);
  return status.error_code();
}

void gluond_stream_close_2(Stream* stream) { stream->Close(); }

}  // extern "C"
