#include "bench/flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <limits>
#include <string>

namespace zero1::bench {

struct Flags::Impl {
  CLI::App app;

  template <class T>
  CLI::Option* option(const std::string& name, T& value, const std::string& help) {
    return app.add_option(name, value, help)->capture_default_str();
  }
};

namespace {

CLI::Range range_from(int at_least) {
  return {std::int64_t{at_least}, std::numeric_limits<std::int64_t>::max(),
          "at least " + std::to_string(at_least)};
}

const CLI::Range counts = range_from(1);

}  // namespace

Flags::Flags(const std::string& description) : impl_(std::make_unique<Impl>()) {
  impl_->app.description(description);
}
Flags::~Flags() = default;

void Flags::add(const std::string& name, int& value, const std::string& help) {
  impl_->option(name, value, help)->check(counts);
}
void Flags::add(const std::string& name, std::int64_t& value, const std::string& help) {
  impl_->option(name, value, help)->check(counts);
}
void Flags::add(const std::string& name, double& value, const std::string& help) {
  impl_->option(name, value, help)->check(CLI::PositiveNumber);
}
void Flags::add(const std::string& name, std::string& value, const std::string& help) {
  impl_->option(name, value, help);
}
void Flags::add(const std::string& name, std::vector<int>& values, const std::string& help, int at_least) {
  impl_->option(name, values, help)->delimiter(',')->check(range_from(at_least));
}
void Flags::add(const std::string& name, std::vector<std::int64_t>& values, const std::string& help) {
  impl_->option(name, values, help)->delimiter(',')->check(counts);
}
void Flags::add(const std::string& name, bool& given, const std::string& help) {
  impl_->app.add_flag(name, given, help);
}

void Flags::parse(int argc, char** argv) {
  try {
    impl_->app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(impl_->app.exit(error) == 0 ? 0 : 2);
  }
}

}  // namespace zero1::bench
