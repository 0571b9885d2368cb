#!/bin/sh
# Installs Leno @VERSION@: leno, leno-proxy, leno-control and leno-init.
#
#   curl -fsSL URL/install.sh | sh -s -- URL     URL is the folder of this release on a server
#   sh install.sh                                installs from the folder of this script
#
# PREFIX is the target directory, by default /usr/local: the programs go into PREFIX/bin.
#
# The script contains the checksums of the archives. If the checksum of the archive differs, it installs nothing.
set -eu

version=@VERSION@
checksum_amd64=@CHECKSUM_AMD64@
checksum_arm64=@CHECKSUM_ARM64@
programs="leno leno-proxy leno-control leno-init"

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

main() {
    bin=${PREFIX:-/usr/local}/bin
    choose_archive
    mkdir -p "$bin" 2>/dev/null && [ -w "$bin" ] ||
        fail "$bin cannot be written; run this as root, or set PREFIX, for example to $HOME/.local"
    # Not every shell runs the trap of EXIT when a signal ends it.
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    work=$(mktemp -d)
    fetch "${1:-}"
    verify
    install_programs
    echo "Leno $version is installed in $bin"
    case ":$PATH:" in *":$bin:"*) ;; *) echo "$bin is not in your PATH; type: export PATH=\"$bin:\$PATH\"" ;; esac
}

# clean_up: removes the temporary files.
clean_up() {
    rm -rf ${work:+"$work"}
    for program in $programs; do
        rm -f "$bin/.$program.new"
    done
}

choose_archive() {
    [ "$(uname -s)" = Linux ] || fail "Leno runs on Linux, not on $(uname -s)"
    case $(uname -m) in
    x86_64 | amd64) architecture=amd64 checksum=$checksum_amd64 ;;
    aarch64 | arm64) architecture=arm64 checksum=$checksum_arm64 ;;
    *) fail "this release has no programs for $(uname -m); build them with cargo" ;;
    esac
    [ -n "$checksum" ] || fail "this release has no programs for $architecture; build them with cargo"
    name=leno-$version-linux-$architecture
}

# fetch URL: gets the archive from the URL or, without a URL, from the folder of this script.
fetch() {
    if [ -z "$1" ]; then
        cp "$(dirname "$0")/$name.tar.gz" "$work" 2>/dev/null ||
            fail "$name.tar.gz is not beside this script; give the URL of the release's folder: install.sh URL"
    elif command -v curl >/dev/null; then
        curl -fsSL --output "$work/$name.tar.gz" "$1/$name.tar.gz" || fail "cannot download $1/$name.tar.gz"
    elif command -v wget >/dev/null; then
        wget -q -O "$work/$name.tar.gz" "$1/$name.tar.gz" || fail "cannot download $1/$name.tar.gz"
    else
        fail "curl or wget is needed to download $1/$name.tar.gz"
    fi
}

verify() {
    command -v sha256sum >/dev/null || fail "sha256sum is needed to verify $name.tar.gz"
    found=$(sha256sum <"$work/$name.tar.gz" | cut -d ' ' -f 1)
    [ "$found" = "$checksum" ] ||
        fail "$name.tar.gz has the checksum $found, not $checksum: it is damaged or was changed; nothing was installed"
}

install_programs() {
    tar -xzf "$work/$name.tar.gz" -C "$work" || fail "cannot unpack $name.tar.gz"
    for program in $programs; do
        # A running program cannot be overwritten, so replace the file.
        cp "$work/$name/$program" "$bin/.$program.new" && chmod 755 "$bin/.$program.new" &&
            mv -f "$bin/.$program.new" "$bin/$program" || fail "cannot write $bin/$program"
    done
}

# Call main at the end, so that a script that was cut off in transit does nothing.
main "$@"
