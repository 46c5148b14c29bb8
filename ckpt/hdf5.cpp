#include "ckpt/hdf5.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "core/base/error.h"

namespace zero1::ckpt {
namespace {

std::recursive_mutex& hdf5_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// What HDF5's error stack says of a failure.
struct Cause {
  std::string description;  ///< of the innermost entry
  std::string function;
  int system_error = 0;  ///< where a system call failed: a full disk, no permission
};

/// The number behind "errno = " in a description by HDF5's file driver; 0: none.
int errno_in(std::string_view description) {
  constexpr std::string_view before = "errno = ";
  const std::size_t at = description.find(before);
  int number = 0;
  if (at != std::string_view::npos)
    std::from_chars(description.data() + at + before.size(), description.data() + description.size(), number);
  return number;
}

herr_t take_cause(unsigned depth, const H5E_error2_t* error, void* into) {
  auto& cause = *static_cast<Cause*>(into);
  if (error->desc == nullptr) return 0;
  if (depth == 0) {
    cause.description = error->desc;
    cause.function = error->func_name != nullptr ? error->func_name : "?";
  }
  if (cause.system_error == 0) cause.system_error = errno_in(error->desc);
  return 0;
}

Handle property_list(hid_t kind, const std::string& file) {
  return {ZERO1_HDF5(file, H5Pcreate, kind), H5Pclose};
}

Handle vector_space(hsize_t elems, const std::string& file) {
  return {ZERO1_HDF5(file, H5Screate_simple, 1, &elems, nullptr), H5Sclose};
}

Handle string_type(std::size_t bytes, const std::string& file) {
  Handle type(ZERO1_HDF5(file, H5Tcopy, H5T_C_S1), H5Tclose);
  ZERO1_HDF5(file, H5Tset_size, type.get(), std::max<std::size_t>(bytes, 1));
  ZERO1_HDF5(file, H5Tset_strpad, type.get(), H5T_STR_NULLPAD);
  ZERO1_HDF5(file, H5Tset_cset, type.get(), H5T_CSET_UTF8);
  return type;
}

/// Times of creation would make the bytes of a checkpoint differ from run to run.
Handle timeless_dataset(const std::string& file) {
  Handle creation = property_list(H5P_DATASET_CREATE, file);
  ZERO1_HDF5(file, H5Pset_obj_track_times, creation.get(), false);
  return creation;
}

Handle table_type(const std::vector<Column>& columns, std::size_t row_bytes, bool in_memory,
                  const std::string& file) {
  std::size_t packed_bytes = 0;
  for (const Column& column : columns) packed_bytes += H5Tget_size(column.file_type);
  Handle type(ZERO1_HDF5(file, H5Tcreate, H5T_COMPOUND, in_memory ? row_bytes : packed_bytes), H5Tclose);
  std::size_t offset = 0;
  for (const Column& column : columns) {
    ZERO1_HDF5(file, H5Tinsert, type.get(), column.name, in_memory ? column.offset : offset,
               in_memory ? column.memory_type : column.file_type);
    offset += H5Tget_size(column.file_type);
  }
  return type;
}

/// Where the dataset's bytes lie, which must be there.
Section section_of(hid_t dataset, const std::string& file) {
  const haddr_t offset = H5Dget_offset(dataset);
  if (offset == HADDR_UNDEF) throw_hdf5_error(file, "H5Dget_offset");
  return {static_cast<std::int64_t>(offset), static_cast<std::int64_t>(H5Dget_storage_size(dataset))};
}

}  // namespace

Hdf5Lock::Hdf5Lock() : lock_(hdf5_mutex()) {
  // A file whose close has failed (a full disk) stays half open inside HDF5, which crashes over it when it
  // cleans up at the end of the process. Everything else is closed by its owner.
  [[maybe_unused]] static const herr_t no_cleanup_at_exit = H5dont_atexit();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

void throw_hdf5_error(const std::string& file, const char* call) {
  Cause cause;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_cause, &cause);
  H5Eclear2(H5E_DEFAULT);
  // The variable wins over what create_file asks for.
  if (cause.description.find("lock file") != std::string::npos) {
    throw Error(fmt::format(
        "{}: HDF5 cannot lock it: set HDF5_USE_FILE_LOCKING=FALSE: this file system has no locks", file));
  }
  if (cause.system_error != 0) {
    throw Error(fmt::format("{}: cannot be written ({}): {}", file, call,
                            std::generic_category().message(cause.system_error)));
  }
  throw Error(fmt::format("{}: HDF5: {} ({}, in {})", file, cause.description, cause.function, call));
}

Handle create_file(const std::string& path, std::int64_t front_bytes) {
  const Handle creation = property_list(H5P_FILE_CREATE, path);
  if (front_bytes > 0) {
    ZERO1_HDF5(path, H5Pset_userblock, creation.get(), static_cast<hsize_t>(front_bytes));
  }
  const Handle access = property_list(H5P_FILE_ACCESS, path);
  ZERO1_HDF5(path, H5Pset_file_locking, access.get(), false, true);
  // The structures that every version of HDF5 reads, whatever the library at hand would choose.
  ZERO1_HDF5(path, H5Pset_libver_bounds, access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
  // By default a file with an open group would be closed with the group, where nobody hears of a failure.
  ZERO1_HDF5(path, H5Pset_fclose_degree, access.get(), H5F_CLOSE_SEMI);
  // Large slices start on a page, so that they can be mapped and written without reading first. HDF5 wants
  // no alignment beyond a user block's size.
  if (front_bytes == 0) ZERO1_HDF5(path, H5Pset_alignment, access.get(), 65536, 4096);
  return {ZERO1_HDF5(path, H5Fcreate, path.c_str(), H5F_ACC_EXCL, creation.get(), access.get()), H5Fclose};
}

Handle create_group(hid_t parent, const std::string& name, const std::string& file) {
  return {ZERO1_HDF5(file, H5Gcreate2, parent, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
          H5Gclose};
}

Handle open_or_create_groups(hid_t parent, const std::vector<std::string>& path, const std::string& file) {
  Handle group(ZERO1_HDF5(file, H5Gopen2, parent, ".", H5P_DEFAULT), H5Gclose);
  for (const std::string& name : path) {
    const bool there = ZERO1_HDF5(file, H5Lexists, group.get(), name.c_str(), H5P_DEFAULT) > 0;
    Handle next = there ? Handle(ZERO1_HDF5(file, H5Gopen2, group.get(), name.c_str(), H5P_DEFAULT), H5Gclose)
                        : create_group(group.get(), name, file);
    group = std::move(next);
  }
  return group;
}

std::int64_t create_float_array(hid_t parent, const std::string& name, const std::vector<std::int64_t>& shape,
                                const std::string& file) {
  const Handle creation = timeless_dataset(file);
  ZERO1_HDF5(file, H5Pset_layout, creation.get(), H5D_CONTIGUOUS);
  ZERO1_HDF5(file, H5Pset_alloc_time, creation.get(), H5D_ALLOC_TIME_EARLY);
  ZERO1_HDF5(file, H5Pset_fill_time, creation.get(), H5D_FILL_TIME_NEVER);
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  const Handle space(
      dims.empty() ? ZERO1_HDF5(file, H5Screate, H5S_SCALAR)
                   : ZERO1_HDF5(file, H5Screate_simple, static_cast<int>(dims.size()), dims.data(), nullptr),
      H5Sclose);
  const Handle dataset(ZERO1_HDF5(file, H5Dcreate2, parent, name.c_str(), H5T_IEEE_F32LE, space.get(),
                                  H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                       H5Dclose);
  if (std::count(dims.begin(), dims.end(), hsize_t{0}) > 0) return 0;
  return section_of(dataset.get(), file).offset;
}

Section write_string(hid_t parent, const std::string& name, const std::string& text,
                     const std::string& file) {
  const Handle creation = timeless_dataset(file);
  const Handle space(ZERO1_HDF5(file, H5Screate, H5S_SCALAR), H5Sclose);
  const Handle type = string_type(text.size(), file);
  Handle dataset(ZERO1_HDF5(file, H5Dcreate2, parent, name.c_str(), type.get(), space.get(), H5P_DEFAULT,
                            creation.get(), H5P_DEFAULT),
                 H5Dclose);
  ZERO1_HDF5(file, H5Dwrite, dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str());
  const Section section = section_of(dataset.get(), file);
  dataset.close(file, "H5Dclose");
  return section;
}

void write_scalar(hid_t parent, const std::string& name, float value, const std::string& file) {
  const Handle creation = timeless_dataset(file);
  const Handle space(ZERO1_HDF5(file, H5Screate, H5S_SCALAR), H5Sclose);
  Handle dataset(ZERO1_HDF5(file, H5Dcreate2, parent, name.c_str(), H5T_IEEE_F32LE, space.get(), H5P_DEFAULT,
                            creation.get(), H5P_DEFAULT),
                 H5Dclose);
  ZERO1_HDF5(file, H5Dwrite, dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value);
  dataset.close(file, "H5Dclose");
}

void write_attribute(hid_t object, const std::string& name, std::int64_t value, const std::string& file) {
  const Handle space(ZERO1_HDF5(file, H5Screate, H5S_SCALAR), H5Sclose);
  const Handle attribute(ZERO1_HDF5(file, H5Acreate2, object, name.c_str(), H5T_STD_I64LE, space.get(),
                                    H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  ZERO1_HDF5(file, H5Awrite, attribute.get(), H5T_NATIVE_INT64, &value);
}

void write_attribute(hid_t object, const std::string& name, const std::string& text,
                     const std::string& file) {
  const Handle space(ZERO1_HDF5(file, H5Screate, H5S_SCALAR), H5Sclose);
  const Handle type = string_type(text.size(), file);
  const Handle attribute(
      ZERO1_HDF5(file, H5Acreate2, object, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  ZERO1_HDF5(file, H5Awrite, attribute.get(), type.get(), text.c_str());
}

Section write_table(hid_t parent, const std::string& name, const std::vector<Column>& columns,
                    std::size_t row_bytes, const void* rows, std::size_t count, const std::string& file) {
  const Handle creation = timeless_dataset(file);
  const Handle space = vector_space(count, file);
  const Handle file_type = table_type(columns, row_bytes, false, file);
  const Handle memory_type = table_type(columns, row_bytes, true, file);
  Handle dataset(ZERO1_HDF5(file, H5Dcreate2, parent, name.c_str(), file_type.get(), space.get(), H5P_DEFAULT,
                            creation.get(), H5P_DEFAULT),
                 H5Dclose);
  if (count == 0) return {};
  ZERO1_HDF5(file, H5Dwrite, dataset.get(), memory_type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows);
  const Section section = section_of(dataset.get(), file);
  dataset.close(file, "H5Dclose");
  return section;
}

}  // namespace zero1::ckpt
