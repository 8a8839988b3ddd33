// Place is a line of the program: errors name the line of the call that failed, which is often an earlier one than the line that
// asks for the value.
//
//   NDArray Exp(const NDArray& x, Place place = Place::Here());  // The caller's line.

#ifndef GLUOND_PLACE_H_
#define GLUOND_PLACE_H_

namespace gluond::client {

struct Place {
  const char* file = "";  // Lives as long as the program.
  int line = 0;

  static constexpr Place Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

}  // namespace gluond::client

#endif  // GLUOND_PLACE_H_
