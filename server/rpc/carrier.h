// A Carrier brings the messages of one call, and takes its answers: gRPC's is in grpc_call.h. A Stream (stream.h) is what the
// server makes of a call, whoever carries it.

#ifndef SERVER_RPC_CARRIER_H_
#define SERVER_RPC_CARRIER_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/wire/attachments.h"
#include "server/wire/inflate.h"

namespace gluond::server {

class Carrier {
 public:
  // Hears what becomes of a call, on threads that poll, and never within one of the carrier's functions but Begin.
  class Listener {
   public:
    virtual ~Listener() = default;
    // StartRead is done. Null: no message comes any more. The listener may take the message.
    virtual void OnReadDone(Slices* message, Encoding encoding) = 0;
    // StartWrite is done; not `ok`: the call has ended.
    virtual void OnWriteDone(bool ok) = 0;
    // The call has ended, and the client has not got the last word.
    virtual void OnCancel() = 0;
    // Last of all: the call is finished, and all that was started is done.
    virtual void OnDone() = 0;
  };

  Carrier() = default;
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;
  virtual ~Carrier() = default;

  // Before anything is started. The carrier keeps the listener until OnDone has returned.
  virtual void Attach(std::shared_ptr<Listener> listener) = 0;
  // From here on OnCancel and OnDone may be called, even before this returns. Once.
  virtual void Begin() = 0;

  // One read and one write at a time; each call is to be finished, once. The call may be over before these return.
  virtual void StartRead() = 0;
  virtual void StartWrite(const Slices& message) = 0;
  virtual void Finish(const absl::Status& status) = 0;
  virtual void WriteAndFinish(const Slices& message) = 0;
  // Finishes the call without a wait for the client: nothing of the call is kept, whether the client reads or not.
  virtual void Abort(const absl::Status& status) = 0;
  // Ends the call at once, whatever is under way. Not after OnDone.
  virtual void Cancel() = 0;
  // Whether it is known by now that the call has ended, and that the client has not got the last word.
  virtual bool is_cancelled() const = 0;

  // The value of a key of the client's metadata; empty: it has none.
  virtual absl::string_view Metadata(absl::string_view key) const = 0;
  // Before Finish.
  virtual void AddTrailingMetadata(absl::string_view key, const std::string& value) = 0;
  // The client's deadline, by this server's clock.
  virtual std::chrono::steady_clock::time_point deadline() const = 0;
  // The reply that is sent next may be compressed, for a client that takes such replies. Before the first is sent.
  virtual void MayCompress() = 0;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_CARRIER_H_
