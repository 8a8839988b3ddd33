// Signals as values: the main thread waits for them, no handler ever runs.

#ifndef SERVER_SIGNALS_H_
#define SERVER_SIGNALS_H_

namespace gluond::server {

// To be called before the first thread starts: SIGINT and SIGTERM wait for WaitForStop, SIGPIPE is ignored.
void BlockSignals();

// Returns the first SIGINT or SIGTERM.
int WaitForStop();

}  // namespace gluond::server

#endif  // SERVER_SIGNALS_H_
