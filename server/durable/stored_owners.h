// StoredOwners keeps the owners of things (identity/owners.h) in the store: all of them are one text, which is written on the
// disk's threads after changes, several of them together. A crash between a thing's making and that leaves the thing without an
// owner, as a store without this text does, and so to the admin.

#ifndef SERVER_DURABLE_STORED_OWNERS_H_
#define SERVER_DURABLE_STORED_OWNERS_H_

#include <atomic>
#include <memory>

#include "engine/store/checkpoint.h"
#include "server/durable/turns.h"
#include "server/rpc/runner.h"

namespace gluond::server {

class StoredOwners {
 public:
  // `store` holds this alone. `runner`, whose owners these are, is there until Stop returns.
  StoredOwners(Runner& runner, std::unique_ptr<CheckpointStore> store, LogSink log);

  // Reads the owners, before the first call and before anything else changes them. An unreadable text is logged.
  void Load();
  // Waits for what is under way. Requires: no more things are made.
  void Stop() { turns_.Stop(); }

 private:
  void Changed();
  void Save();

  Runner& runner_;
  const std::unique_ptr<CheckpointStore> store_;
  const LogSink log_;
  std::atomic<bool> will_save_ = false;
  Turns turns_;
};

}  // namespace gluond::server

#endif  // SERVER_DURABLE_STORED_OWNERS_H_
