// Signals to stop and to read files again, for a thread that waits for them.

#ifndef SERVER_START_SIGNALS_H_
#define SERVER_START_SIGNALS_H_

#include <functional>

namespace gluond::server {

// From now on SIGINT, SIGTERM and SIGHUP, whichever thread gets them, wake WaitForStop; SIGPIPE and SIGXFSZ are ignored, since
// writes say so. (Blocking them would not do: libraries start threads before main.) A second SIGINT or SIGTERM ends the process
// at once, with the exit status 128 + its number. A signal within a quarter of a second of the first does not: a terminal and a
// parent may both pass one on.
void CatchSignals();

// Waits for a SIGINT or SIGTERM since CatchSignals and returns it. Calls `on_hangup` for SIGHUP meanwhile; several that
// come while it is called may be one.
int WaitForStop(const std::function<void()>& on_hangup);

}  // namespace gluond::server

#endif  // SERVER_START_SIGNALS_H_
