# shellcheck shell=bash
# An OCI archive from a Containerfile and programs. Sourced by build; the caller sets root and out, has fail,
# and removes the folder $work when it leaves early.
#
# It knows the instructions that our Containerfiles have, and refuses others. The same input gives the same bytes: no
# times, no owners, names in order.

# blob FILE: moves a file among the blobs of $layout; sets DIGEST and SIZE.
blob() {
    DIGEST=$(sha256sum "$1" | cut -d' ' -f1) SIZE=$(stat -c %s "$1")
    mv "$1" "$layout/blobs/sha256/$DIGEST"
}

# pack FOLDER FILE NAME...: a tar file that depends on nothing but contents and modes.
pack() {
    local folder=$1 file=$2
    shift 2
    tar --create --file "$file" --directory "$folder" --format=ustar --sort=name --mtime=@0 \
        --owner=0 --group=0 --numeric-owner "$@"
}

# read_containerfile IMAGE ARCH VERSION: fills $work/root, and sets CONFIG, the config object of the image.
read_containerfile() {
    local file=$root/deploy/images/$1/Containerfile arch=$2 version=$3 word rest from to
    local env='' labels='' user='' entrypoint=''
    rm -rf "$work/root" && mkdir -p "$work/root"
    while read -r word rest; do
        rest=${rest//'${TARGETARCH}'/$arch} rest=${rest//'${VERSION}'/$version}
        case $word in
        '' | '#'*) ;;
        FROM) [[ $rest == scratch ]] || fail "$file: FROM $rest: only scratch can be built without an engine" ;;
        ARG) [[ $rest == TARGETARCH || $rest == VERSION ]] || fail "$file: ARG $rest is not known" ;;
        COPY)
            read -r from to <<<"$rest"
            [[ $to == /* && -f $out/$from ]] || fail "$file: COPY $rest: there is no $out/$from"
            install -D -m 755 "$out/$from" "$work/root$to"
            ;;
        ENV) env+="${env:+,}\"$rest\"" ;;
        LABEL) labels+="${labels:+,}\"${rest%%=*}\":${rest#*=}" ;;
        USER) user=$rest ;;
        ENTRYPOINT) entrypoint=$rest ;;
        *) fail "$file: $word is not known here" ;;
        esac
    done <"$file"
    find "$work/root" -type d -exec chmod 755 {} +
    CONFIG="{\"User\":\"$user\",\"Env\":[$env],\"Entrypoint\":$entrypoint,\"WorkingDir\":\"/\",\"Labels\":{$labels}}"
}

# manifest IMAGE ARCH VERSION: writes layer, config and manifest; sets DESCRIPTOR, without its closing brace.
manifest() {
    local diff config layer kind=application/vnd.oci.image
    read_containerfile "$@"
    pack "$work/root" "$work/layer" .
    diff=$(sha256sum "$work/layer" | cut -d' ' -f1)
    gzip --no-name --stdout "$work/layer" >"$work/layer.gz"
    blob "$work/layer.gz"
    layer="{\"mediaType\":\"$kind.layer.v1.tar+gzip\",\"digest\":\"sha256:$DIGEST\",\"size\":$SIZE}"
    printf '{"architecture":"%s","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$2" "$CONFIG" "$diff" >"$work/config"
    blob "$work/config"
    config="{\"mediaType\":\"$kind.config.v1+json\",\"digest\":\"sha256:$DIGEST\",\"size\":$SIZE}"
    printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":%s,"layers":[%s]}' \
        "$kind" "$config" "$layer" >"$work/manifest"
    blob "$work/manifest"
    DESCRIPTOR="{\"mediaType\":\"$kind.manifest.v1+json\",\"digest\":\"sha256:$DIGEST\",\"size\":$SIZE"
    DESCRIPTOR+=",\"platform\":{\"architecture\":\"$2\",\"os\":\"linux\"}"
}

# archive IMAGE VERSION ARCH...: writes $out/PROGRAM.tar.
archive() {
    local image=$1 version=$2 arch layout all='' several kind=application/vnd.oci.image.index.v1+json
    shift 2
    several=$#
    work=$(mktemp -d "$out/.image.XXXXXX")
    layout=$work/layout
    mkdir -p "$layout/blobs/sha256"
    for arch in "$@"; do
        manifest "$image" "$arch" "$version"
        all+="${all:+,}$DESCRIPTOR}"
    done
    if ((several > 1)); then
        printf '{"schemaVersion":2,"mediaType":"%s","manifests":[%s]}' "$kind" "$all" >"$work/index"
        blob "$work/index"
        DESCRIPTOR="{\"mediaType\":\"$kind\",\"digest\":\"sha256:$DIGEST\",\"size\":$SIZE"
    fi
    DESCRIPTOR+=",\"annotations\":{\"io.containerd.image.name\":\"muster.dev/$image:$version\""
    DESCRIPTOR+=",\"org.opencontainers.image.ref.name\":\"$version\"}}"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    printf '{"schemaVersion":2,"mediaType":"%s","manifests":[%s]}' "$kind" "$DESCRIPTOR" >"$layout/index.json"
    pack "$layout" "$work/archive" oci-layout index.json blobs
    mv "$work/archive" "$out/$(program "$image").tar"
    rm -rf "$work" && work=''
    printf 'muster.dev/%s:%s (%s): %s, %s\n' "$image" "$version" "$*" "$out/$(program "$image").tar" \
        "$(du -h "$out/$(program "$image").tar" | cut -f1)"
}
