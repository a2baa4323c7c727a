# What both scripts begin with. $1: the root of the repository; they run in an empty folder.
set -euo pipefail
root=$1 work=$PWD version=v0.1.0 library=github.com/mandate-dev/mandate

fail() {
	printf 'FAIL: %s\n' "$*"
	exit 1
}

# has FILE TEXT...
has() {
	local text
	for text in "${@:2}"; do
		if ! grep -qF -- "$text" "$1"; then fail "$1 lacks $text:"$'\n'"$(<"$1")"; fi
	done
}

# The checkout, committed or not, as if it were on GitHub.
environment=$(cd "$root" && .ci/published "$work" "$version")
mapfile -t environment <<<"$environment"
