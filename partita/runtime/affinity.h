// On which cores the devices' compute threads run. The cores that the program may use are dealt out to the devices,
// where there are enough: else the system may put two devices on one core, and leave another idle. Threads of
// collectives and transfers run anywhere.
//
// Example: 8 cores and 2 devices: cores 0 to 3 and 4 to 7.
#pragma once
#include <vector>

namespace partita {

std::vector<int> usable_cores();  // in ascending order; empty where the system does not tell
// Of device `device` of `devices`; empty where there are fewer cores than devices, and of others (hosts).
std::vector<int> cores_of(const std::vector<int>& usable, int device, int devices);
// Keeps the calling thread on these cores, as far as the system lets it; on any, where there are none.
void stay_on(const std::vector<int>& cores);

}  // namespace partita
