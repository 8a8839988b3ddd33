// SessionCore: a session as the library has it: its stream, its prepared calls, the names of its arrays.

#ifndef GLUOND_CLIENT_CPP_SESSION_CORE_H_
#define GLUOND_CLIENT_CPP_SESSION_CORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gluond/client.h"
#include "gluond/ndarray.h"
#include "gluond/options.h"
#include "gluond/place.h"

namespace gluond::v1 {
class CustomOperatorSpec;
class Expansion;
}  // namespace gluond::v1

namespace gluond::client {

class Host;
class LocalServer;
class Pipeline;

// The session's name for a call of an operator. The session forgets the name with the object.
struct PreparedCall {
  PreparedCall(Pipeline& pipeline, uint64_t name) : pipeline(pipeline), name(name) {}
  ~PreparedCall();
  PreparedCall(const PreparedCall&) = delete;

  Pipeline& pipeline;
  const uint64_t name;
  int outputs = 1;
};

// Thread-safe.
class SessionCore : public std::enable_shared_from_this<SessionCore> {
 public:
  static absl::StatusOr<std::shared_ptr<SessionCore>> Connect(const std::string& address, Options options, std::string device,
                                                              std::shared_ptr<LocalServer> server);
  // The session of this thread, which the first one asks for may connect.
  static absl::StatusOr<std::shared_ptr<SessionCore>> Current();
  static std::shared_ptr<SessionCore> Exchange(std::shared_ptr<SessionCore> of_thread);
  static void SetDefault(std::shared_ptr<SessionCore> core);

  Pipeline& pipeline() { return *pipeline_; }
  const std::string& address() const { return address_; }
  const Options& options() const { return options_; }
  // The key of the operators that this program computes, for sessions opened from now on, and of this session.
  static std::string Key();
  static void SetKey(std::string key);
  const std::string& key() const { return key_; }
  const std::string& scope() const { return scope_; }
  absl::StatusOr<Client> client();

  uint64_t NewArray() { return next_array_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t NewCall() { return next_call_.fetch_add(1, std::memory_order_relaxed); }

  // The call of an operator with these attributes for so many inputs. outputs: kAskOutputs asks the server, once. custom: null,
  // or the operator that a client computes.
  absl::StatusOr<std::shared_ptr<const PreparedCall>> CallOf(absl::string_view op, const Attributes& attributes, size_t inputs,
                                                             int outputs, const v1::CustomOperatorSpec* custom, Place place);

  // The stream over which the server calls this program, opened at the first need.
  Host& host();
  ~SessionCore();

  // The operators of a layer or a loss. expand: the message Command.Expand; the server is asked once for each.
  absl::StatusOr<std::shared_ptr<const v1::Expansion>> Expand(const std::string& expand, Place place);

 private:
  SessionCore(std::string address, Options options);

  const std::string address_;
  const Options options_;
  std::string key_, scope_;              // The secret of custom operators, and the name that is shown for it.
  std::shared_ptr<LocalServer> server_;  // Outlives the pipeline.
  std::unique_ptr<Pipeline> pipeline_;
  std::shared_ptr<Host> host_;  // Guarded by mutex_.
  std::atomic<uint64_t> next_array_{1}, next_call_{1};
  std::mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<const PreparedCall>> calls_;        // Guarded by mutex_.
  absl::flat_hash_map<std::string, std::shared_ptr<const v1::Expansion>> expansions_;  // Guarded by mutex_.
  std::optional<Client> client_;                                                       // Guarded by mutex_.
};

// An array. Its name is freed with it.
struct ArrayState {
  ArrayState(std::shared_ptr<SessionCore> session, uint64_t name) : session(std::move(session)), name(name) {}
  explicit ArrayState(absl::Status error) : error(std::move(error)) {}
  ~ArrayState();
  ArrayState(const ArrayState&) = delete;

  const std::shared_ptr<SessionCore> session;  // Null: nothing was sent, `error` says why.
  const uint64_t name = 0;

  std::mutex mutex;
  absl::Status error;          // Guarded by mutex, as all from here on.
  std::optional<Shape> shape;  // Known to this program, as far as they have a value.
  std::optional<DType> dtype;
  std::string device;
  std::shared_ptr<ArrayState> grad;
  GradReq request = GradReq::kNull;
  bool is_recorded = false;    // Whether autograd has recorded the call that made it.
  bool is_sent = true;         // Whether the server has the values under the name.
  std::optional<Tensor> here;  // The values, where this program has them.
};

// A new array of the session, which stands for nothing yet.
NDArray NewArray(const std::shared_ptr<SessionCore>& session);
// An array whose values are here: they are sent when a command reads or writes the array.
NDArray LocalArray(const std::shared_ptr<SessionCore>& session, Tensor values, const std::string& device);
// The error that an array was poisoned with in this program.
absl::Status ErrorOf(const NDArray& array);
// The arrays' session, which is one: INVALID_ARGUMENT otherwise. From now on the server has the arrays. what: the operator, in the
// error.
absl::StatusOr<std::shared_ptr<SessionCore>> SessionOf(absl::string_view what, absl::Span<const NDArray> arrays);
// Adds the line to an error of this program's own.
absl::Status Located(absl::Status error, Place place);
// As Invoke, with a client's operator.
std::vector<NDArray> InvokeCustom(absl::string_view op, absl::Span<const NDArray> inputs, const Attributes& attributes, int outputs,
                                  const v1::CustomOperatorSpec* custom, Place place);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_SESSION_CORE_H_
