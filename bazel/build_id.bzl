"""build_id: a header with a hash of other files, by which two programs know that they fit together."""

def build_id(name, srcs):
    """Generates build_id.h, which defines gluond::kBuildId: 16 hexadecimal digits over srcs' contents.

    The server and the CUDA plugin share every class in the engine's headers. They are compiled apart, so
    each carries the hash of the headers it was compiled with, and the server refuses a plugin with another.
    """
    native.genrule(
        name = name,
        srcs = srcs,
        outs = ["build_id.h"],
        cmd = """
id=$$(cat $(SRCS) | sha256sum | cut -c1-16)
cat > $@ <<END
#ifndef GLUOND_BUILD_ID_H_
#define GLUOND_BUILD_ID_H_

namespace gluond {

inline constexpr char kBuildId[] = "$$id";

}  // namespace gluond

#endif  // GLUOND_BUILD_ID_H_
END
""",
    )
