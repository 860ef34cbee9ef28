# shellcheck shell=bash
# Programs for images: static, with musl. Sourced by build; the caller sets root, out, profile and has fail.
#
# The only C in them is that of ring, zstd and lz4, and for musl the allocator of the coordinator. It needs a C compiler
# for the target: musl-gcc (Debian: musl-tools) on the machine's own architecture, Debian's cross compiler for the other.

# program IMAGE: the program that an image holds.
program() {
    case $1 in
    musterctl) echo musterctl ;;
    *) echo "muster-$1" ;;
    esac
}

# compiler TRIPLE: the C compiler for musl of that architecture.
compiler() {
    local machine=${1%%-*} debian
    if [[ $(uname -m) == "$machine" ]]; then
        command -v musl-gcc >/dev/null || fail "musl-gcc is not installed; on Debian: apt install musl-tools"
        echo musl-gcc
    else
        [[ $machine == aarch64 ]] && debian=arm64 || debian=amd64
        command -v "$machine-linux-gnu-gcc" >/dev/null ||
            fail "$machine-linux-gnu-gcc is not installed; on Debian: apt install gcc-${machine/_/-}-linux-gnu libc6-dev-$debian-cross"
        echo "$machine-linux-gnu-gcc"
    fi
}

# target_directory: where cargo builds.
target_directory() {
    cargo metadata --format-version 1 --no-deps --offline --manifest-path "$root/Cargo.toml" |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
}

# cargo_build TRIPLE PROFILE IMAGE...: the programs of these images, in one run of cargo.
cargo_build() {
    local triple=$1 chosen=$2 cc variable=${1//-/_} image
    local -a settings packages=()
    shift 2
    cc=$(compiler "$triple")
    settings=("CC_$variable=$cc")
    if [[ $cc != musl-gcc ]]; then
        # The headers are those of glibc: nothing of its own that musl does not have. Rust brings linker and start files.
        settings+=("CFLAGS_$variable=-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0 -mno-outline-atomics")
        settings+=("CARGO_TARGET_${variable^^}_LINKER=rust-lld")
    fi
    for image in "$@"; do
        packages+=(--package "$(program "$image")" --bin "$(program "$image")")
    done
    printf '%s: %s, profile %s\n' "$triple" "$*" "$chosen"
    env "${settings[@]}" cargo build --quiet --manifest-path "$root/Cargo.toml" --locked \
        --profile "$chosen" --target "$triple" "${packages[@]}"
}

# triple ARCH: Rust's name for it.
triple() {
    case $1 in
    amd64) echo x86_64-unknown-linux-musl ;;
    arm64) echo aarch64-unknown-linux-musl ;;
    *) fail "--arch $1: it is amd64 or arm64" ;;
    esac
}

# check_tools ARCH: fails where a program for it cannot be built.
check_tools() {
    local triple
    triple=$(triple "$1")
    [[ -d $(rustc --print target-libdir --target "$triple") ]] ||
        fail "Rust has no standard library for $triple; with rustup: rustup target add $triple"
    compiler "$triple" >/dev/null
}

# compile ARCH IMAGE...: leaves the programs in $out/bin/ARCH.
compile() {
    local arch=$1 triple chosen image folder
    shift
    check_tools "$arch"
    triple=$(triple "$arch")
    mkdir -p "$out/bin/$arch"
    # To be quick, all at once.
    [[ -z $profile ]] || cargo_build "$triple" "$profile" "$@"
    for image in "$@"; do
        chosen=$profile
        if [[ -z $chosen ]]; then
            chosen=dist
            [[ $image != agent ]] || chosen=agent
            # Alone: built together, dependencies would get features that one of them does not need.
            cargo_build "$triple" "$chosen" "$image"
        fi
        folder=$chosen
        [[ $chosen != dev ]] || folder=debug
        install -m 755 "$(target_directory)/$triple/$folder/$(program "$image")" "$out/bin/$arch/"
    done
}
