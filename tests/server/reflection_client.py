"""A client that knows no .proto: methods and messages come from the server's reflection."""

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

# The way to a message's class since protobuf 4.22, and the way before that.
_class_of = getattr(message_factory, "GetMessageClass", None) or (
    lambda descriptor: message_factory.MessageFactory(descriptor.file.pool).GetPrototype(descriptor)
)

V1, V1ALPHA = "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"


def _reflection_messages():
    """The messages of grpc.reflection, the same in all versions."""
    file = descriptor_pb2.FileDescriptorProto(name="reflection.proto", package="r", syntax="proto3")

    def add(name, *fields):
        message = file.message_type.add(name=name)
        for number, field, type_name, repeated in fields:
            entry = message.field.add(name=field, number=number, label=3 if repeated else 1)
            if type_name in ("string", "bytes", "int32"):
                entry.type = {"string": 9, "bytes": 12, "int32": 5}[type_name]
            else:
                entry.type, entry.type_name = 11, ".r." + type_name

    add("Extension", (1, "containing_type", "string", False), (2, "extension_number", "int32", False))
    add(
        "Request",
        (1, "host", "string", False),
        (3, "file_by_filename", "string", False),
        (4, "file_containing_symbol", "string", False),
        (5, "file_containing_extension", "Extension", False),
        (6, "all_extension_numbers_of_type", "string", False),
        (7, "list_services", "string", False),
    )
    add("Numbers", (1, "base_type_name", "string", False), (2, "extension_number", "int32", True))
    add("Files", (1, "file_descriptor_proto", "bytes", True))
    add("Service", (1, "name", "string", False))
    add("Services", (1, "service", "Service", True))
    add("Error", (1, "error_code", "int32", False), (2, "error_message", "string", False))
    add(
        "Response",
        (1, "valid_host", "string", False),
        (2, "original_request", "Request", False),
        (4, "files", "Files", False),
        (5, "numbers", "Numbers", False),
        (6, "services", "Services", False),
        (7, "error", "Error", False),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [_class_of(pool.FindMessageTypeByName("r." + name)) for name in ("Request", "Response")]


class Reflection:
    """A client that learns everything from the server."""

    def __init__(self, channel, version=V1ALPHA):
        self._channel = channel
        self._method = f"/{version}/ServerReflectionInfo"
        self._request, self._response = _reflection_messages()
        self._pool = descriptor_pool.DescriptorPool()
        self._known = set()

    def stream(self, questions):
        """The answers to an iterator of dicts."""
        call = self._channel.stream_stream(self._method, self._request.SerializeToString, self._response.FromString)
        return call(self._request(**question) for question in questions)

    def ask(self, **question):
        return next(iter(self.stream([question])))

    def services(self):
        return [service.name for service in self.ask(list_services="*").services.service]

    def find(self, service):
        answer = self.ask(file_containing_symbol=service)
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
        """The answer, or the last of several."""
        found, request, reply_type = self._prepare(service, method, request_json)
        described = descriptor_pb2.MethodDescriptorProto()
        found.CopyToProto(described)
        if not described.server_streaming:
            return json_format.MessageToDict(self.start(service, method, request_json).result())
        stub = self._channel.unary_stream(f"/{service}/{method}", type(request).SerializeToString, reply_type.FromString)
        return json_format.MessageToDict(list(stub(request, timeout=60))[-1])

    def start(self, service, method, request_json):
        """The call's future."""
        _, request, reply_type = self._prepare(service, method, request_json)
        stub = self._channel.unary_unary(f"/{service}/{method}", type(request).SerializeToString, reply_type.FromString)
        return stub.future(request, timeout=60)

    def _prepare(self, service, method, request_json):
        """The method, its request, and its reply's class."""
        found = self.find(service).methods_by_name[method]
        request = _class_of(found.input_type)()
        json_format.ParseDict(request_json, request)
        return found, request, _class_of(found.output_type)

    def prototype(self, message):
        return _class_of(self._pool.FindMessageTypeByName(message))
