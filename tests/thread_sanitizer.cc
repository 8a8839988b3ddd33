// Reports that ThreadSanitizer is to suppress, linked into every program of --config=tsan. The distribution's gRPC and protobuf
// are not instrumented, and their Abseil mutexes are not understood: memory that passes through them from one thread to
// another seems to do so without order. The templates of their headers, though, are compiled here. A report is false
// when one of its stacks lies in such a template; none of them calls our own code.

extern "C" const char* __tsan_default_suppressions() {
  return "race:grpc::internal::CallOp\n"
         "race:grpc::internal::Call::\n"
         "race:grpc::internal::CallbackWithSuccessTag\n"
         "race:CallbackCallTag::ContinueRunAfterInterception()::{lambda\n"
         "race:grpc::internal::InterceptorBatchMethodsImpl\n"
         "race:google::protobuf::internal::\n"
         "race:google::protobuf::io::\n"
         // A client in this process wrote the bytes that SliceCursor reads, and gRPC handed them over.
         "race:SliceCursor\n"
         // The main thread makes Arrivals before gRPC's threads use them, and frees them after these.
         "race:server/net/grpc_1_51/arrivals.cc\n"
         // gRPC frees the tensors of a message on a thread of its own, and counts its references to a slice without instruments.
         "race:grpc_core::NewSliceRefcount::Destroy\n"
         "race:client/cpp/tensor_message.cc\n";
}
