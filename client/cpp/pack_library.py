#!/usr/bin/python3
"""Packs the C++ client as a library for other programs, with all hidden that is not public.

    pack_library.py --version VERSION --out ARCHIVE --objects 'A.a B.a' HEADER... gluond.pc.in gluondConfig.cmake.in ...

All objects become one, whose symbols are local but for those that GLUOND_EXPORT shows. Neither archive nor shared library then has a
name that another copy of the messages in the program could meet.
"""

import argparse
import pathlib
import re
import subprocess
import tarfile
import tempfile

# Symbols of classes and functions in gluond::client, and their tables.
PUBLIC = re.compile(r"_Z(?:N|NK|T[VIST]N)6gluond6client")
# The libraries of which the shared one is made; the archive's user links them.
LIBRARIES = (
    "-lgrpc++ -lgrpc -lgpr -lprotobuf -lcrypto -labsl_statusor -labsl_status -labsl_cord -labsl_cordz_info "
    "-labsl_cord_internal -labsl_cordz_functions -labsl_cordz_handle -labsl_synchronization -labsl_time -labsl_time_zone -labsl_civil_time "
    "-labsl_str_format_internal -labsl_strings -labsl_strings_internal -labsl_int128 -labsl_base -labsl_raw_logging_internal "
    "-labsl_throw_delegate -labsl_bad_optional_access -labsl_bad_variant_access -labsl_raw_hash_set -labsl_hash -lz"
).split()


def run(*command):
    """A tool's output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def public_symbols(objects):
    """Names of the defined symbols that are not hidden and are the library's."""
    names = set()
    for line in run("readelf", "--symbols", "--wide", objects).splitlines():
        words = line.split()
        if len(words) == 8 and words[4] in ("GLOBAL", "WEAK") and words[5] == "DEFAULT" and words[6] != "UND":
            if PUBLIC.match(words[7]):
                names.add(words[7])
    return sorted(names)


def pack(version, out, archives, files):
    """Writes the archive."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        whole, kept, library = root / "gluond.o", root / "public.txt", root / "libgluond.a"
        soname = f"libgluond.so.{'.'.join(version.split('.')[:2])}"
        shared = root / f"libgluond.so.{version}"
        # Groups are what two copies of an inline function would be told apart by: each has its own from here on.
        run("ld", "-r", "--force-group-allocation", "--whole-archive", *archives, "-o", str(whole))
        symbols = public_symbols(str(whole))
        assert symbols, "the objects export nothing, and objcopy would take an empty list for no list"
        kept.write_text("".join(f"{name}\n" for name in symbols))
        run("objcopy", f"--keep-global-symbols={kept}", "--strip-debug", str(whole))
        run("ar", "rcsD", str(library), str(whole))
        run("g++", "-shared", f"-Wl,-soname,{soname}", "-Wl,-z,defs", "-Wl,--as-needed", str(whole), *LIBRARIES, "-o", str(shared))
        members = {f"lib/{each.name}": each for each in (library, shared)}
        for file in map(pathlib.Path, files):
            if file.suffix == ".h":
                members[f"include/gluond/{file.name}"] = file
                continue
            filled = root / file.name.removesuffix(".in")
            filled.write_text(file.read_text().replace("@VERSION@", version).replace("@SHARED@", shared.name))
            members[f"lib/{'pkgconfig' if filled.suffix == '.pc' else 'cmake/gluond'}/{filled.name}"] = filled
        links = {"lib/libgluond.so": soname, f"lib/{soname}": shared.name}
        write_tar(out, f"gluond-{version}", members, links)


def write_tar(out, top, members, links):
    """Files and links in the order of their names, with nothing in them of who packs and when."""
    with tarfile.open(out, "w:gz", compresslevel=6) as tar:
        for name in sorted((*members, *links)):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.mode = 0o644
            if name in links:
                entry.type, entry.linkname = tarfile.SYMTYPE, links[name]
                tar.addfile(entry)
                continue
            entry.size = members[name].stat().st_size
            with open(members[name], "rb") as file:
                tar.addfile(entry, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--objects", required=True, type=str.split)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    pack(options.version, options.out, options.objects, options.files)


if __name__ == "__main__":
    main()
