// A program of the server's (Explain of docs/wire.md), as a text of at most 120 columns and as a picture.

#ifndef GLUOND_CLIENT_CLI_PROGRAM_TABLE_H_
#define GLUOND_CLIENT_CLI_PROGRAM_TABLE_H_

#include <string>
#include <vector>

#include "gluond/types.h"

namespace gluond::cli {

// The sums, the steps of each run, and the passes. Steps that compute constants are many, small, and done once: they are counted.
std::string ProgramTable(const client::ExplainResponse& program);

// Steps from top to bottom with bars of their FLOP and bytes, and beside them their places in the arena, as SVG.
std::string ProgramPicture(const client::ExplainResponse& program);

// The sums, a line each.
std::vector<std::string> ProgramHead(const client::ExplainResponse& program);
// "(1,28,28)".
std::string ShapeText(const client::ProgramTensor& tensor);
// The text, or its beginning and its end, in so many characters.
std::string Shortened(const std::string& text, size_t most);
// "1.2M".
std::string Amount(double number);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_PROGRAM_TABLE_H_
