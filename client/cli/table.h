// Prints rows of text in aligned columns.

#ifndef GLUOND_CLIENT_CLI_TABLE_H_
#define GLUOND_CLIENT_CLI_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gluond::cli {

using Table = std::vector<std::vector<std::string>>;

// The rows, one per line, two spaces between columns; the last column is not padded.
std::string Aligned(const Table& rows);

// "1.5 MiB".
std::string Bytes(int64_t bytes);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_TABLE_H_
