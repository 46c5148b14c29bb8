// The communicator suite on in-process ranks.
#include "tests/conformance/communicator_local_backend.h"
#include "tests/conformance/communicator_suite.h"

ZERO1_COMMUNICATOR_SUITE(zero1::test::LocalBackend)
