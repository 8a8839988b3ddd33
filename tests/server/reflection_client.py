"""A client that knows no .proto: methods and messages come from the server's reflection."""

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def _reflection_messages():
  """grpc.reflection.v1alpha's messages, as far as they are used here."""
  file = descriptor_pb2.FileDescriptorProto(name="reflection.proto", package="r", syntax="proto3")

  def add(name, *fields):
    message = file.message_type.add(name=name)
    for number, field, type_name, repeated in fields:
      entry = message.field.add(name=field, number=number, label=3 if repeated else 1)
      if type_name in ("string", "bytes"):
        entry.type = 9 if type_name == "string" else 12
      else:
        entry.type, entry.type_name = 11, ".r." + type_name

  add("Request", (4, "file_containing_symbol", "string", False), (7, "list_services", "string", False))
  add("Files", (1, "file_descriptor_proto", "bytes", True))
  add("Service", (1, "name", "string", False))
  add("Services", (1, "service", "Service", True))
  add("Error", (2, "error_message", "string", False))
  add("Response", (4, "files", "Files", False), (6, "services", "Services", False), (7, "error", "Error", False))
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  factory = message_factory.MessageFactory(pool)
  return [factory.GetPrototype(pool.FindMessageTypeByName("r." + name)) for name in ("Request", "Response")]


class Reflection:
  """A client that learns everything from the server."""

  def __init__(self, channel):
    self._channel = channel
    self._request, self._response = _reflection_messages()
    self._pool = descriptor_pool.DescriptorPool()
    self._factory = message_factory.MessageFactory(self._pool)
    self._known = set()

  def _ask(self, **question):
    call = self._channel.stream_stream(REFLECTION, self._request.SerializeToString, self._response.FromString)
    return next(iter(call(iter([self._request(**question)]))))

  def services(self):
    return [service.name for service in self._ask(list_services="*").services.service]

  def find(self, service):
    answer = self._ask(file_containing_symbol=service)
    assert not answer.error.error_message, answer.error.error_message
    files = [descriptor_pb2.FileDescriptorProto.FromString(raw) for raw in answer.files.file_descriptor_proto]
    while files:  # A file may be added after those that it imports.
      ready = [f for f in files if all(d in self._known for d in f.dependency)]
      assert ready, f"reflection gives no {[f.dependency for f in files]}"
      for file in ready:
        if file.name not in self._known:
          self._pool.Add(file)
          self._known.add(file.name)
        files.remove(file)
    return self._pool.FindServiceByName(service)

  def call(self, service, method, request_json):
    return json_format.MessageToDict(self.start(service, method, request_json).result())

  def start(self, service, method, request_json):
    """The call's future."""
    found = self.find(service).methods_by_name[method]
    request = self._factory.GetPrototype(found.input_type)()
    json_format.ParseDict(request_json, request)
    reply_type = self._factory.GetPrototype(found.output_type)
    stub = self._channel.unary_unary(f"/{service}/{method}", type(request).SerializeToString, reply_type.FromString)
    return stub.future(request, timeout=60)

  def prototype(self, message):
    return self._factory.GetPrototype(self._pool.FindMessageTypeByName(message))
