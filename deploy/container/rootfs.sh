#!/bin/bash
# Makes the root file system of the image: the programs in /usr/bin, stripped; the shared libraries that
# they load, from this machine's packages; who owns each library, for scanners; the user who runs it.
#
#   deploy/container/rootfs.sh FOLDER PROGRAM...
#
# Needs no root and no network. FOLDER must not exist.
set -euo pipefail
if [[ $# -lt 2 || -e $1 ]]; then
  echo "usage: rootfs.sh FOLDER PROGRAM... (FOLDER is made here and must not exist)" >&2
  exit 2
fi
root=$1
shift
umask 022
mkdir -p "$root"/{etc,tmp,usr/bin,usr/lib/x86_64-linux-gnu,usr/lib64,var/lib/dpkg/status.d}
chmod 1777 "$root/tmp"
# 1. The layout of Debian 12: /lib is in /usr.
ln -s usr/bin "$root/bin"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"

# 2. The programs.
for program in "$@"; do
  strip -o "$root/usr/bin/${program##*/}" "$program"
  chmod 755 "$root/usr/bin/${program##*/}"
done

# 3. Their libraries: lines `NAME => PATH (ADDRESS)`, and the loader as `PATH (ADDRESS)`.
libraries=$(for program in "$@"; do ldd "$program"; done)
if grep "not found" <<<"$libraries" >&2; then
  echo "rootfs: the libraries above are missing on this machine" >&2
  exit 1
fi
awk '/=>/ {print $3} $1 ~ "^/" {print $1}' <<<"$libraries" | sort -u | while read -r library; do
  file=$(readlink -f "$library")
  case $library in
    /lib64/*) cp "$file" "$root/usr$library" ;;
    *) cp "$file" "$root/usr/lib/x86_64-linux-gnu/${library##*/}" ;;  # Where the loader looks by itself.
  esac
  # dpkg may know the file by its name before /lib moved into /usr.
  owner=$(dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "${file#/usr}" 2>/dev/null ||
    dpkg-query -S "*/${library##*/}" | head -n 1)
  owner=${owner%%:*}
  if [[ ! -e $root/var/lib/dpkg/status.d/$owner ]]; then
    dpkg-query -s "$owner" >"$root/var/lib/dpkg/status.d/$owner"
    mkdir -p "$root/usr/share/doc/$owner"
    cp -L "/usr/share/doc/$owner/copyright" "$root/usr/share/doc/$owner/"
  fi
done

# 4. The user, and where the store is.
echo 'root:x:0:0:root:/:/nonexistent
gluond:x:65532:65532:gluond:/var/lib/gluond:/nonexistent' >"$root/etc/passwd"
echo 'root:x:0:
gluond:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
cp /etc/os-release "$root/etc/"
mkdir -m 700 "$root/var/lib/gluond"
