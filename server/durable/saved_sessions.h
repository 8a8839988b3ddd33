// SavedSessions: what sessions have saved, by name, for whoever knows the name's key. Saves lie in the server's store where
// there is one, so that the next process has them, and else in memory.
//
//   SavedSessions saved(runner, std::move(store), most_bytes, log);
//   saved.Load();                      // Before the first call.
//   saved.Save("run-7", key, std::move(save), [](absl::StatusOr<v1::SavedSession> saved) { ... });
//   saved.Open({"run-7", key, /*version=*/{}, memory, budget}, [](absl::StatusOr<SavedSessions::Opened> opened) { ... });
//   saved.Stop();
//
// Thread-safe. Save, Open and Delete return at once, and call `done` on a thread of the disk. Where the key is wrong they
// call `done` at once: who does not know the key keeps nobody waiting. Calls about one name take place one after another,
// in their order.

#ifndef SERVER_DURABLE_SAVED_SESSIONS_H_
#define SERVER_DURABLE_SAVED_SESSIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/store/session_store.h"
#include "gluond/v1/saved_session.pb.h"
#include "server/durable/turns.h"
#include "server/hosted/registry.h"
#include "server/rpc/runner.h"

namespace gluond::server {

class SavedSessions {
 public:
  // `store` holds sessions' saves alone; null: there is none. In memory they have `most_bytes`. `runner` is there until
  // Stop returns.
  SavedSessions(Runner& runner, std::unique_ptr<CheckpointStore> store, int64_t most_bytes, LogSink log);

  // Lists the saves that the store has. A save that cannot be read is logged and stays on the disk. A damaged one stays
  // until its name is saved again. A save of a newer format stays for a later server that may read it, and its name is
  // refused.
  void Load();

  // The errors of each are those of its command or method in the .proto.

  // Takes client, manifest, random state and arrays of `save`; its tensors are on the host.
  void Save(const std::string& name, const std::string& key, SessionSave save,
            std::function<void(absl::StatusOr<v1::SavedSession>)> done);

  struct Opening {
    std::string name, key;
    std::optional<uint64_t> version;    // Absent: any.
    std::shared_ptr<Allocator> memory;  // Where the values are to lie. Null: they are not wanted.
    std::shared_ptr<Budget> budget;     // Pays for `Opened::saved`.
  };
  struct Opened {
    v1::SavedSession saved;                   // With the manifest and the types.
    std::shared_ptr<const SessionSave> save;  // Null where the values are not wanted.
    Reservation kept;
  };
  void Open(Opening opening, std::function<void(absl::StatusOr<Opened>)> done);

  void Delete(const std::string& name, const std::string& key, std::function<void(const absl::Status&)> done);

  // Sorted by name.
  std::vector<v1::SavedSession> List() const;
  bool Has(const std::string& name) const { return entries_.Has(name); }

  // Waits for what is under way. Requires: all calls and sessions have ended.
  void Stop() { turns_.Stop(); }

 private:
  // A save, as memory has it.
  struct Entry {
    absl::Status status;     // The reason why this server cannot read it.
    SessionSummary summary;  // Without the manifest and the types.
    int64_t bytes = 0;
    int64_t num_arrays = 0;
    int64_t told_bytes = 0;                        // The memory of the manifest and the types.
    std::shared_ptr<const SessionSave> in_memory;  // Null: the store has it.
    std::atomic<std::chrono::system_clock::time_point> used = std::chrono::system_clock::now();
  };
  using EntryPtr = std::shared_ptr<Entry>;

  absl::StatusOr<v1::SavedSession> SaveNow(const std::string& name, const std::string& key, SessionSave save);
  absl::Status KeepInMemory(const std::string& name, const EntryPtr& entry, std::shared_ptr<const SessionSave> save);
  absl::StatusOr<Opened> OpenNow(const Opening& opening);
  absl::Status DeleteNow(const std::string& name, const std::string& key);
  // The entry of the name, if it has that key.
  absl::StatusOr<EntryPtr> Find(const std::string& name, const std::string& key) const;
  // Refuses a name that has another key. OK: nothing has the name, or not yet.
  absl::Status CheckKey(const std::string& name, const std::string& key) const;
  absl::Status CheckSave(const std::string& name, const std::string& key) const;
  static EntryPtr NewEntry(SessionSummary summary);
  // The bytes in memory of the saves of a tenant, of all where it is empty, when one named `name` has `bytes`.
  int64_t BytesWith(const std::string& name, int64_t bytes, absl::string_view tenant) const;
  v1::SavedSession Describe(const std::string& name, const Entry& entry) const;

  const std::unique_ptr<SessionStore> store_;  // Null: there is none.
  const Tenants& tenants_;
  const int64_t most_bytes_;
  const LogSink log_;
  Turns turns_;
  Registry<Entry> entries_;
  Mutex memory_mu_;  // Held from the look at what memory holds until more is in it.
};

}  // namespace gluond::server

#endif  // SERVER_DURABLE_SAVED_SESSIONS_H_
