// Reads a file of arrays, and writes it again: copy_arrays FROM TO.

#include <iostream>

#include "gluond/files.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const absl::StatusOr<gluond::client::NamedTensors> tensors = gluond::client::LoadTensors(argv[1]);
  const absl::Status status = tensors.ok() ? gluond::client::SaveTensors(argv[2], *tensors) : tensors.status();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
