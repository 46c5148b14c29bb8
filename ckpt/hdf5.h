// HDF5's C API with owners and exceptions. Nothing outside ckpt/ includes HDF5.
//
// Debian's HDF5 is not thread-safe: every call is made under Hdf5Lock, one for the whole process. The
// locked calls touch metadata only, a few kilobytes per file; slices are read and written past HDF5 with
// pread and pwrite at the offsets that HDF5 has given them, by any number of threads at once.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace zero1::ckpt {

/// Serialises HDF5 in this process and keeps it from printing errors. May be taken again by its thread.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// Throws Error, InputError where the call reads, with the innermost message of HDF5's error stack.
[[noreturn]] void throw_hdf5_error(const std::string& file, const char* call);

/// Passes a result on; throws when it is negative, which is how every call of the C API reports errors.
template <class Result>
Result check_hdf5(Result result, const std::string& file, const char* call) {
  if (result < 0) throw_hdf5_error(file, call);
  return result;
}

/// ZERO1_HDF5(file, H5Fcreate, …): the call, checked; `file` is the path that messages name.
#define ZERO1_HDF5(file, function, ...) ::zero1::ckpt::check_hdf5(function(__VA_ARGS__), file, #function)

/// Owns one HDF5 identifier of any kind. Create, use and destroy it under Hdf5Lock.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle(hid_t id, Close closer) : id_(id), close_(closer) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  hid_t get() const { return id_; }

  /// Closes now and checks; for files, whose close writes.
  void close(const std::string& file) { check_hdf5(close_(std::exchange(id_, -1)), file, "H5Fclose"); }

 private:
  hid_t id_;
  Close close_;
};

/// A new file. `user_block_bytes` are left free in front of HDF5's own bytes (0, or 512 · 2^n).
Handle create_file(const std::string& path, std::int64_t user_block_bytes = 0);
/// For reading. No file locks are taken: published files never change, and network file systems that
/// have none then work too.
Handle open_file(const std::string& path);

Handle create_group(hid_t parent, const std::string& name, const std::string& file);

/// A contiguous little-endian float32 array (no sizes: a scalar) whose bytes are there (not filled) when this
/// returns; its offset in the file.
std::int64_t create_float_array(hid_t parent, const std::string& name, const std::vector<std::int64_t>& shape,
                                const std::string& file);

void write_string(hid_t parent, const std::string& name, const std::string& text, const std::string& file);
void write_attribute(hid_t object, const std::string& name, std::int64_t value, const std::string& file);
void write_attribute(hid_t object, const std::string& name, const std::string& text, const std::string& file);

/// One member of a table's rows: an integer of a C++ struct.
struct Column {
  const char* name;
  std::size_t offset;  ///< in the struct
  hid_t memory_type;   ///< H5T_NATIVE_…
  hid_t file_type;     ///< H5T_STD_…LE
};

void write_table(hid_t parent, const std::string& name, const std::vector<Column>& columns,
                 std::size_t row_bytes, const void* rows, std::size_t count, const std::string& file);

/// The dataset as a string. Throws InputError when it is missing, is reached through a link other than a
/// hard one, or is not a string stored in this file.
std::string read_string(hid_t parent, const std::string& name, const std::string& file);

/// Exactly `count` rows into `rows`; throws InputError when the table is something else.
void read_table(hid_t parent, const std::string& name, const std::vector<Column>& columns,
                std::size_t row_bytes, void* rows, std::size_t count, const std::string& file);

}  // namespace zero1::ckpt
