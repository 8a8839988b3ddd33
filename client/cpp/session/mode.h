// The modes of autograd and of custom operators, of one thread.

#ifndef GLUOND_CLIENT_CPP_SESSION_MODE_H_
#define GLUOND_CLIENT_CPP_SESSION_MODE_H_

#include <functional>

namespace gluond::client {

struct Mode {
  bool recording = false;
  bool training = false;
  bool makes_local = false;  // Values of new arrays stay here: a custom operator computes, and often with them alone.
};

extern thread_local Mode mode_of_thread;

// Told when this thread begins and ends to wait for the server; empty: nobody wants to know. A callback's thread has one.
extern thread_local std::function<void(bool begins)> around_wait;

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_SESSION_MODE_H_
