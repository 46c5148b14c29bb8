// The conformance suite of Device, Stream, Event and Ops. A backend's program includes this header and
// defines `backends()`.
//
// Tolerances are in units of the output's rounding (`unit`), on top of what each test says of the sums
// that the operation makes. bf16 and fp16 operations compute in fp32, so one rounding is all they add.
#pragma once

// IWYU pragma: begin_exports
#include "device_suite_attention.h"
#include "device_suite_elementwise.h"
#include "device_suite_loss.h"
#include "device_suite_matmul.h"
#include "device_suite_memory.h"
#include "device_suite_model.h"
#include "device_suite_optimizer.h"
#include "device_suite_streams.h"
#include "device_suite_sum_of_squares.h"
// IWYU pragma: end_exports
