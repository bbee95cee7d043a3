#!/bin/sh
# For the scripts that unpack Debian's packages: the packages of the machine's own suite, in a directory.
#
# `debian_packages DIRECTORY` downloads what the function `wanted` names, one package a word. The package lists may be
# missing or older than the archive: then they are read, which needs root. The caller has `say`.

debian_packages() {
    if _download "$1" 2>"$1/why"; then
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        say "apt does not have the packages; run apt-get update as root first: $(cat "$1/why")"
        exit 1
    fi
    say "reading the package lists"
    apt-get -qq update
    _download "$1"
}

_download() {
    # shellcheck disable=SC2046 # a list of package names
    (cd "$1" && apt-get -qq --option APT::Sandbox::User= download $(wanted))
}
