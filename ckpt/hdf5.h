// HDF5's C API with owners and exceptions, for writing. Nothing outside ckpt/ includes HDF5.
//
// Nothing is read through HDF5: on bytes that are damaged or were made up the library may crash or allocate
// without bound. checkpoint.h5 says in front where its parts lie (ckpt/checkpoint_file.h).
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

#include "ckpt/format.h"

namespace zero1::ckpt {

/// Serialises HDF5 in this process and keeps it from printing errors. May be taken again by its thread.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// Throws Error with what HDF5's error stack says: why the system refused (a full disk), else its innermost
/// message, and what to set where that was about locks.
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
  Handle& operator=(Handle&& other) noexcept {
    if (this == &other) return *this;
    if (id_ >= 0) close_(id_);
    id_ = std::exchange(other.id_, -1);
    close_ = other.close_;
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  hid_t get() const { return id_; }

  /// Closes now and checks; for files and for datasets with data, whose close writes what is still in memory.
  void close(const std::string& file, const char* call) {
    check_hdf5(close_(std::exchange(id_, -1)), file, call);
  }

 private:
  hid_t id_;
  Close close_;
};

/// A new file. `front_bytes` are left free in front of HDF5's own bytes (0, or 512 · 2^n). No lock is
/// taken on it: it lies in a folder that nobody else writes, and network file systems without locks do too.
Handle create_file(const std::string& path, std::int64_t front_bytes = 0);
Handle create_group(hid_t parent, const std::string& name, const std::string& file);
/// The last of groups inside each other; creates those that are not there yet.
Handle open_or_create_groups(hid_t parent, const std::vector<std::string>& path, const std::string& file);

/// A contiguous little-endian float32 array (no sizes: a scalar) whose bytes are there (not filled) when this
/// returns; its offset in the file.
std::int64_t create_float_array(hid_t parent, const std::string& name, const std::vector<std::int64_t>& shape,
                                const std::string& file);

/// One string of fixed length; where its bytes lie.
Section write_string(hid_t parent, const std::string& name, const std::string& text, const std::string& file);
/// A float32 without dimensions.
void write_scalar(hid_t parent, const std::string& name, float value, const std::string& file);
void write_attribute(hid_t object, const std::string& name, std::int64_t value, const std::string& file);
void write_attribute(hid_t object, const std::string& name, const std::string& text, const std::string& file);

/// One member of a table's rows: an integer of a C++ struct.
struct Column {
  const char* name;
  std::size_t offset;  ///< in the struct
  hid_t memory_type;   ///< H5T_NATIVE_…
  hid_t file_type;     ///< H5T_STD_…LE
};

/// A one-dimensional dataset of packed rows; where its bytes lie.
Section write_table(hid_t parent, const std::string& name, const std::vector<Column>& columns,
                    std::size_t row_bytes, const void* rows, std::size_t count, const std::string& file);

}  // namespace zero1::ckpt
