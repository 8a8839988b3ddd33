// Messages compressed by zlib, for tests.

#ifndef TESTS_SERVER_DEFLATED_H_
#define TESTS_SERVER_DEFLATED_H_

#include <zlib.h>

#include <string>

#include "gtest/gtest.h"
#include "server/wire/inflate.h"

namespace gluond::server {

// "1f8b..." for gzip, "78..." for deflate, as gRPC means them.
inline std::string Deflated(const std::string& text, Encoding encoding) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, encoding == Encoding::kGzip ? 31 : 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace gluond::server

#endif  // TESTS_SERVER_DEFLATED_H_
