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

# compiler ARCH: the C compiler for musl of that architecture, and with it the flags that it needs.
compiler() {
    local own machine=$1
    own=$(uname -m)
    [[ $machine == amd64 ]] && machine=x86_64
    [[ $machine == arm64 ]] && machine=aarch64
    if [[ $own == "$machine" ]]; then
        command -v musl-gcc >/dev/null || fail "musl-gcc is not installed; on Debian: apt install musl-tools"
        echo musl-gcc
    else
        command -v "$machine-linux-gnu-gcc" >/dev/null ||
            fail "$machine-linux-gnu-gcc is not installed; on Debian: apt install gcc-${machine/_/-}-linux-gnu libc6-dev-$1-cross"
        echo "$machine-linux-gnu-gcc"
    fi
}

# compile ARCH IMAGE: leaves the program in $out/bin/ARCH.
compile() {
    local arch=$1 name triple chosen=$profile folder variable cc target
    name=$(program "$2")
    case $arch in
    amd64) triple=x86_64-unknown-linux-musl ;;
    arm64) triple=aarch64-unknown-linux-musl ;;
    *) fail "--arch $arch: it is amd64 or arm64" ;;
    esac
    [[ -d $(rustc --print target-libdir --target "$triple") ]] ||
        fail "Rust has no standard library for $triple; with rustup: rustup target add $triple"
    cc=$(compiler "$arch")
    if [[ -z $chosen ]]; then
        chosen=release
        [[ $2 != agent ]] || chosen=agent
    fi
    folder=$chosen
    [[ $chosen != dev ]] || folder=debug
    variable=${triple//-/_}
    local -a settings=("CC_$variable=$cc")
    if [[ $cc != musl-gcc ]]; then
        # The headers are those of glibc: nothing of its own that musl does not have. Rust brings linker and start files.
        settings+=("CFLAGS_$variable=-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0 -mno-outline-atomics")
        settings+=("CARGO_TARGET_${variable^^}_LINKER=rust-lld")
    fi
    printf '%s for %s, profile %s\n' "$name" "$arch" "$chosen"
    # Alone: built together, dependencies would get features that one of them does not need.
    env "${settings[@]}" cargo build --quiet --manifest-path "$root/Cargo.toml" --locked \
        --profile "$chosen" --target "$triple" --package "$name" --bin "$name"
    target=$(cargo metadata --format-version 1 --no-deps --offline --manifest-path "$root/Cargo.toml" |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    mkdir -p "$out/bin/$arch"
    install -m 755 "$target/$triple/$folder/$name" "$out/bin/$arch/$name"
}
