// The collectives of in-process ranks, one file each: what rank `rank` does between arriving at a round
// and departing from it. Every rank sees all buffers, so each algorithm is one step in which a rank
// reads from its peers and writes what is its own to write; no two ranks write the same element, and none
// reads what another writes.
//
// n ranks; S is the bytes of the longest buffer (the input of reduce-scatter and all-to-all, the output of
// all-gather, the data of all-reduce and broadcast). Bytes are read + written, per rank, over one step:
//
//   reduce-scatter   S + S/n               reads its piece of every input, writes one piece
//   all-gather       2S, in place 2S(n-1)/n   reads every peer's input, writes it to its own output
//   all-reduce       2S                    reads its piece of all data, writes the result to all of them
//   broadcast        2S, the root 0        reads the root's data
//   all-to-all       2S                    reads from every peer the piece that is meant for it
//
// A ring over a network sends (n-1)/n S per rank in n-1 steps for the first two and twice that for
// all-reduce; link_model.h models those.
#pragma once

#include <span>

#include "core/comm/local/call.h"

namespace zero1::local {

/// All ranks' calls of one collective, by rank.
using Calls = std::span<const Call* const>;

void run_reduce_scatter(Calls calls, int rank);
void run_all_gather(Calls calls, int rank);
void run_all_reduce(Calls calls, int rank);
void run_broadcast(Calls calls, int rank);
void run_all_to_all(Calls calls, int rank);

}  // namespace zero1::local
