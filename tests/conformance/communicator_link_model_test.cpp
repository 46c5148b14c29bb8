// The communicator suite on in-process ranks behind a modelled link.
#include "core/comm/link_model.h"
#include "tests/conformance/communicator_local_backend.h"
#include "tests/conformance/communicator_suite.h"

namespace {

class LinkModelBackend final : public zero1::test::LocalBackend {
 public:
  std::vector<int> sizes() const override { return {1, 2, 5}; }

 protected:
  std::unique_ptr<zero1::Communicator> wrap(std::unique_ptr<zero1::Communicator> inner) const override {
    return zero1::with_link_model(std::move(inner), {.gbit_per_s = 100, .latency_us = 2});
  }
};

}  // namespace

ZERO1_COMMUNICATOR_SUITE(LinkModelBackend)
