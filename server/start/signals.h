// Stop signals, for a thread that waits for them.

#ifndef SERVER_START_SIGNALS_H_
#define SERVER_START_SIGNALS_H_

namespace gluond::server {

// From now on SIGINT and SIGTERM, whichever thread gets them, wake WaitForStop; SIGPIPE and SIGXFSZ are ignored, since
// writes say so. (Blocking them would not do: libraries start threads before main.) A second one ends the process at
// once, with the exit status 128 + its number, unless it comes within a quarter of a second of the first: a terminal and
// a parent may both pass one on.
void CatchSignals();

// Waits for a SIGINT or SIGTERM since CatchSignals and returns it.
int WaitForStop();

}  // namespace gluond::server

#endif  // SERVER_START_SIGNALS_H_
