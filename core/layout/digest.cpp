#include "core/layout/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <iterator>
#include <memory>
#include <string_view>

#include "core/base/error.h"

namespace zero1 {
namespace {

void check(int openssl_status, const char* call) {
  if (openssl_status != 1) throw Error(fmt::format("OpenSSL: {} failed", call));
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    check(context_ ? 1 : 0, "EVP_MD_CTX_new");
    check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
  }

  void update(std::string_view bytes) {
    check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()), "EVP_DigestUpdate");
  }

  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size), "EVP_DigestFinal_ex");
    std::string text;
    for (unsigned int i = 0; i < size; ++i) fmt::format_to(std::back_inserter(text), "{:02x}", digest[i]);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

RangeDigest range_digest(const Layout& layout, int buffer) {
  Sha256 sha;
  RangeDigest digest;
  fmt::memory_buffer lines;
  const auto out = std::back_inserter(lines);
  for (RangeMapWalker walker(layout, buffer); !walker.done();) {
    for (const ParamShard& row : walker.next()) {
      fmt::format_to(out, "{} {} {}:{} {}:{} {}:{} {}:{}\n", row.bucket, at(layout.specs, row.param).name,
                     row.gbuf_world.start, row.gbuf_world.end, row.gbuf_world_in_bucket.start,
                     row.gbuf_world_in_bucket.end, row.gbuf_local.start, row.gbuf_local.end,
                     row.param_range.start, row.param_range.end);
      ++digest.rows;
    }
    fmt::format_to(out, "--\n");
    if (lines.size() > (std::size_t{1} << 16)) {
      sha.update({lines.data(), lines.size()});
      lines.clear();
    }
  }
  sha.update({lines.data(), lines.size()});
  digest.sha256 = sha.hex();
  return digest;
}

}  // namespace zero1
