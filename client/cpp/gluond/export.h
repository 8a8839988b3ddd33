// GLUOND_EXPORT marks what the library shows to programs: all else in it is hidden, the generated messages above all.

#ifndef GLUOND_EXPORT_H_
#define GLUOND_EXPORT_H_

#define GLUOND_EXPORT __attribute__((visibility("default")))

#endif  // GLUOND_EXPORT_H_
