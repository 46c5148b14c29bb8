// How OpenMP's threads wait for each other.
#pragma once

namespace zero1::app {

/// GCC's OpenMP lets threads that wait for each other spin for milliseconds. Where the machine is busy, that
/// takes the cores from those they wait for: a run of one rank on two threads took 10 times as long beside
/// two other programs. The setting is read once, before main, so the program starts itself again with it.
/// Who has set it keeps it; where starting again fails, the program goes on as it is.
void let_waiting_threads_sleep(char** argv);

}  // namespace zero1::app
