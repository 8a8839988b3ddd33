// OperatorService: lists operators, and runs one at a time without a model (proto/gluond/v1/operator.proto).

#ifndef SERVER_SERVICES_OPERATOR_SERVICE_H_
#define SERVER_SERVICES_OPERATOR_SERVICE_H_

#include "gluond/v1/operator.pb.h"
#include "server/custom/host_stream.h"
#include "server/hosted/devices.h"
#include "server/rpc/raw_service.h"
#include "server/services/invoker.h"

namespace gluond::server {

class OperatorService final : public RawService {
 public:
  OperatorService(Runner& runner, Devices& devices, HostStreams& hosts);

  void Sweep() override { invoker_.Sweep(); }

 private:
  void ListOperators(Call<v1::ListOperatorsRequest, v1::ListOperatorsResponse> call);
  void DescribeOperator(Call<v1::DescribeOperatorRequest, v1::DescribeOperatorResponse> call);
  void ListComponents(Call<v1::ListComponentsRequest, v1::ListComponentsResponse> call);
  void Invoke(Call<v1::InvokeRequest, v1::InvokeResponse> call);
  void CheckGradient(Call<v1::CheckGradientRequest, v1::CheckGradientResponse> call);
  std::shared_ptr<Stream> HostOperators(Stream::Opening opening);

  Devices& devices_;
  HostStreams& hosts_;
  Invoker invoker_;
};

}  // namespace gluond::server

#endif  // SERVER_SERVICES_OPERATOR_SERVICE_H_
