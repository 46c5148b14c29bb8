// What ThreadSanitizer is told. The emulation's own locks order threads that a GPU would leave unordered,
// so they are hidden from it; only the orders that CUDA promises are declared.
#pragma once

#include <memory>
#include <utility>

#include "tests/support/sanitizers.h"

#if ZERO1_UNDER_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreSyncBegin(const char*, int);
void AnnotateIgnoreSyncEnd(const char*, int);
void AnnotateIgnoreReadsBegin(const char*, int);
void AnnotateIgnoreReadsEnd(const char*, int);
void AnnotateIgnoreWritesBegin(const char*, int);
void AnnotateIgnoreWritesEnd(const char*, int);
}
#endif

namespace cuda_emulation {

#if ZERO1_UNDER_TSAN
/// While one lives, TSan sees neither this thread's accesses nor its synchronisation.
class Quiet {
 public:
  Quiet() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
};

/// What this thread did so far happens before what another does after `acquired` of the same address.
inline void released(void* where) {
  __tsan_release(where);
}
inline void acquired(void* where) {
  __tsan_acquire(where);
}
#else
class Quiet {
 public:
  Quiet() {}
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() {}
};
inline void released(void*) {}
inline void acquired(void*) {}
#endif

/// A shared_ptr whose reference counting orders nothing.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(std::shared_ptr<T> pointer) : pointer_(std::move(pointer)) {}
  Ref(const Ref& other) {
    const Quiet quiet;
    pointer_ = other.pointer_;
  }
  Ref(Ref&& other) noexcept : pointer_(std::move(other.pointer_)) {}
  Ref& operator=(Ref other) noexcept {
    pointer_.swap(other.pointer_);
    return *this;
  }
  ~Ref() {
    const Quiet quiet;
    pointer_.reset();
  }
  template <class... Args>
  static Ref make(Args&&... args) {
    const Quiet quiet;
    return Ref(std::make_shared<T>(std::forward<Args>(args)...));
  }

  T* operator->() const { return pointer_.get(); }
  T& operator*() const { return *pointer_; }
  T* get() const { return pointer_.get(); }
  explicit operator bool() const { return pointer_ != nullptr; }
  bool operator==(const Ref& other) const { return pointer_ == other.pointer_; }

 private:
  std::shared_ptr<T> pointer_;
};

}  // namespace cuda_emulation
