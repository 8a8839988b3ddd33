// The services of a server, each a class in the .cc of its name. All that a service is given outlives it.

#ifndef SERVER_SERVICES_SERVICES_H_
#define SERVER_SERVICES_SERVICES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/rpc/raw_service.h"
#include "server/serving/serve_file.h"

namespace gluond {
class CheckpointStore;
}

namespace gluond::server {

class Datasets;
class Devices;
class Group;
class HostStreams;
class InferStreams;
class JoinStream;
class LiveModels;
class Models;
class ParameterUploads;
class Publisher;
class SavedSessions;
class Sessions;
template <class T>
class SharedStreams;
class SharedRegions;
class StoredDatasets;
class VersionTable;

// `count_models` tells how many of a reach there are now.
std::unique_ptr<RawService> NewServerService(Runner& runner, const Devices& devices, bool has_store,
                                             std::function<int64_t(const Reach&)> count_models);
std::unique_ptr<RawService> NewOperatorService(Runner& runner, Devices& devices, HostStreams& hosts);
// `store` and `live` are null where nothing can be saved.
std::unique_ptr<RawService> NewModelService(Runner& runner, Devices& devices, Models& models, ParameterUploads& uploads,
                                            const VersionTable& served, CheckpointStore* store, LiveModels* live);
// `stored` is null without a store.
// `group`: the one that the server leads; null: none.
std::unique_ptr<RawService> NewTrainingService(Runner& runner, Devices& devices, Models& models, Datasets& datasets,
                                               StoredDatasets* stored, Group* group);
std::unique_ptr<RawService> NewGroupService(Runner& runner, Group* group, SharedStreams<JoinStream>& streams);
std::unique_ptr<RawService> NewSessionService(Runner& runner, Sessions& sessions, SavedSessions& saved);
// `store` holds checkpoints; null: there is none. `reload` reads the file --serve again; null: there is none.
using ServingReload = std::function<void(std::function<void(absl::StatusOr<Declaration>)> done)>;
std::unique_ptr<RawService> NewServingService(Runner& runner, Devices& devices, Models& models, Publisher& publisher,
                                              CheckpointStore* store, ServingReload reload);
// `regions`: null where the server takes no shared memory.
std::unique_ptr<RawService> NewInferenceService(Runner& runner, Publisher& publisher, InferStreams& streams,
                                                SharedRegions* regions);
// `services`: the full names that it lists.
enum class ReflectionVersion { kV1, kV1Alpha };
using ServiceNames = std::function<std::vector<std::string>()>;
std::unique_ptr<RawService> NewReflectionService(Runner& runner, ReflectionVersion version, ServiceNames services);

}  // namespace gluond::server

#endif  // SERVER_SERVICES_SERVICES_H_
