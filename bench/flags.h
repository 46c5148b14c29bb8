// The flags of a bench program. CLI11 stays behind it: compiling it in every program took longer than the
// programs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace zero1::bench {

/// Names, checks and explains flags; the values that the variables hold are the defaults that --help shows.
/// Numbers are counts, at least 1 where nothing else is said; lists are separated by commas.
class Flags {
 public:
  explicit Flags(const std::string& description);
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;
  ~Flags();

  void add(const std::string& name, int& value, const std::string& help);
  void add(const std::string& name, std::int64_t& value, const std::string& help);
  void add(const std::string& name, double& value, const std::string& help);
  void add(const std::string& name, std::string& value, const std::string& help);
  void add(const std::string& name, std::vector<int>& values, const std::string& help, int at_least = 1);
  void add(const std::string& name, std::vector<std::int64_t>& values, const std::string& help);
  /// A flag without a value.
  void add(const std::string& name, bool& given, const std::string& help);

  /// Sets the variables. Ends the program after --help with status 0, and with 2 on flags that it cannot
  /// take.
  void parse(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1::bench
