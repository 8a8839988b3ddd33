// ReflectionService tells clients that know no .proto, like grpcurl, which services there are and what their messages look
// like (proto/reflection). gRPC's own would keep a thread for each stream.

#ifndef SERVER_SERVICES_REFLECTION_SERVICE_H_
#define SERVER_SERVICES_REFLECTION_SERVICE_H_

#include <functional>
#include <string>
#include <vector>

#include "server/rpc/raw_service.h"

namespace gluond::server {

enum class ReflectionVersion { kV1, kV1Alpha };

class ReflectionService final : public RawService {
 public:
  using Names = std::function<std::vector<std::string>()>;

  // `services`: the full names that it lists.
  ReflectionService(Runner& runner, ReflectionVersion version, Names services);

 private:
  std::shared_ptr<Stream> ServerReflectionInfo(Stream::Opening opening);

  const Names services_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_REFLECTION_SERVICE_H_
