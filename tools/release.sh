#!/usr/bin/env bash
#
# What a release consists of, made from the files of this directory that git has or could add: changes that are not committed are
# part of it. To be sourced from the project's directory.

# copy_files DIRECTORY [PATH…]: the files, or those of these paths.
copy_files() {
    mkdir -p "$1" &&
        git ls-files -z --cached --others --exclude-standard -- "${@:2}" |
        while IFS= read -r -d '' file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done |
            tar --null --files-from=- -cf - | tar -xf - -C "$1"
}

# copy_repository DIRECTORY: a repository with the files, and with the tag of the release.
copy_repository() {
    copy_files "$1" . && (
        cd "$1" && git init --quiet && git add --all &&
            git -c user.name=zklock -c user.email=zklock@localhost commit --quiet --message="Release" &&
            git tag "v$(cat VERSION)"
    )
}

# pack_rocks DIRECTORY: the source rocks, as they are published. git takes a copy of this directory for the repository that the
# rockspecs name.
pack_rocks() {
    local version url rock rockspecs=$PWD/rockspec
    version=$(cat VERSION)
    url=$(sed -n 's/^  url = "git+\(.*\)",$/\1/p' "$rockspecs/zklock-$version-1.rockspec")
    [ -n "$url" ] && copy_repository "$1/origin" || return
    printf '[url "file://%s"]\n    insteadOf = %s\n' "$1/origin" "$url" >"$1/gitconfig"
    for rock in zklock zklock-cli; do
        (cd "$1" && HOME=$1 GIT_CONFIG_GLOBAL=$1/gitconfig luarocks pack "$rockspecs/$rock-$version-1.rockspec") &&
            [ -s "$1/$rock-$version-1.src.rock" ] || return
    done
}
