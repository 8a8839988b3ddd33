// SavedSessions: what sessions have saved, by name, for whoever knows the name's key: in the server's store where it has
// one, so that the next process has them, and else in memory.
//
//   SavedSessions saved(runner, std::move(store), most_bytes, log);
//   saved.Load();                      // Before the first call.
//   saved.Save("run-7", key, std::move(save), [](absl::StatusOr<v1::SavedSession> saved) { ... });
//   saved.Open("run-7", key, {}, memory, [](absl::StatusOr<SavedSessions::Opened> opened) { ... });
//   saved.Stop();
//
// Thread-safe. Save, Open and Delete return at once, and call `done` on a thread of the disk's; those of one name take
// place one after another, in the order of the calls.

#ifndef SERVER_DURABLE_SAVED_SESSIONS_H_
#define SERVER_DURABLE_SAVED_SESSIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "engine/store/session_store.h"
#include "gluond/v1/saved_session.pb.h"
#include "server/durable/turns.h"
#include "server/hosted/registry.h"
#include "server/rpc/unary.h"

namespace gluond::server {

class SavedSessions {
 public:
  // `store` holds sessions' saves alone; null: there is none. In memory they have `most_bytes`. `runner` outlives this.
  SavedSessions(Runner& runner, std::unique_ptr<CheckpointStore> store, int64_t most_bytes, LogSink log);

  // Lists the saves that the store has. One whose notes are damaged is logged, and stays on the disk until its name is
  // saved again.
  void Load();

  // The errors of each are those of its command or method in the .proto.

  // Takes name, key, client, manifest, random state and arrays of `save`; its tensors are on the host.
  void Save(const std::string& name, SessionSave save, std::function<void(absl::StatusOr<v1::SavedSession>)> done);

  struct Opened {
    v1::SavedSession saved;                   // With the manifest and the types.
    std::shared_ptr<const SessionSave> save;  // Null where the values are not wanted.
  };
  // `memory`: where the values are to lie; null: they are not wanted.
  void Open(const std::string& name, const std::string& key, std::optional<uint64_t> version,
            std::shared_ptr<Allocator> memory, std::function<void(absl::StatusOr<Opened>)> done);

  void Delete(const std::string& name, const std::string& key, std::function<void(const absl::Status&)> done);

  // By name.
  std::vector<v1::SavedSession> List() const;

  // Waits for what is under way. Requires: all calls and sessions have ended.
  void Stop() { turns_.Stop(); }

 private:
  // A save, as memory has it.
  struct Entry {
    SessionSummary summary;  // Without the manifest and the types where the store has them.
    int64_t bytes = 0;
    int64_t num_arrays = 0;
    std::shared_ptr<const SessionSave> in_memory;  // Null: the store has it.
    std::atomic<std::chrono::system_clock::time_point> used = std::chrono::system_clock::now();
  };
  using EntryPtr = std::shared_ptr<Entry>;

  absl::StatusOr<v1::SavedSession> SaveNow(const std::string& name, SessionSave save);
  absl::Status KeepInMemory(const std::string& name, const EntryPtr& entry, std::shared_ptr<const SessionSave> save);
  absl::StatusOr<Opened> OpenNow(const std::string& name, const std::string& key, std::optional<uint64_t> version,
                                 Allocator* memory);
  absl::Status DeleteNow(const std::string& name, const std::string& key);
  // The entry, of that key.
  absl::StatusOr<EntryPtr> Find(const std::string& name, const std::string& key) const;
  static EntryPtr NewEntry(SessionSummary summary);
  v1::SavedSession Describe(const std::string& name, const Entry& entry) const;

  const std::unique_ptr<SessionStore> store_;  // Null: there is none.
  const int64_t most_bytes_;
  const LogSink log_;
  Turns turns_;
  Registry<Entry> entries_;
  Mutex memory_mu_;  // Held from the look at what memory holds until more is in it.
};

}  // namespace gluond::server

#endif  // SERVER_DURABLE_SAVED_SESSIONS_H_
