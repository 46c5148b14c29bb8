#include <cstdio>

#include "core/trace/reader.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const zero1::trace::Reader reader(argv[1]);
  std::printf("%lld events\n", static_cast<long long>(reader.count()));
  return reader.read_all().empty() ? 1 : 0;
}
