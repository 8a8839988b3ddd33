// Stop signals, for a thread that waits for them.

#ifndef SERVER_SIGNALS_H_
#define SERVER_SIGNALS_H_

namespace gluond::server {

// From now on SIGINT and SIGTERM, whichever thread gets them, wake WaitForStop; SIGPIPE is ignored. (Blocking them would
// not do: libraries start threads before main.)
void CatchSignals();

// Waits for a SIGINT or SIGTERM since CatchSignals and returns it.
int WaitForStop();

}  // namespace gluond::server

#endif  // SERVER_SIGNALS_H_
