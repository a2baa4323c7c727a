#!/usr/bin/env bash
# Checks the model with spin, then that each switch which breaks the protocol is
# caught. Everything is built in a temporary directory.
set -euo pipefail
model=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/token.pml
for tool in spin gcc; do
	command -v "$tool" >/dev/null || { echo "make model needs $tool: apt-get install spin gcc libc6-dev" >&2; exit 1; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# search DEFINES: the whole bounded state space, or up to the first violation.
# Sets $found, $states and $seconds.
search() {
	local began=$SECONDS
	rm -f ./*
	# shellcheck disable=SC2086 # several defines
	spin $1 -a "$model" >spin.log 2>&1 || { cat spin.log; exit 1; }
	# -w: spin's generated code is not free of warnings.
	gcc -w -O3 -DSAFETY -DMEMLIM=4000 -o pan pan.c
	# -E: nodes that have nothing more to do are no deadlock.
	./pan -E -n -m100000 >pan.log || true
	# Whatever keeps the search from being complete is a failure, not a pass.
	if grep -qE 'max search depth too small|out of memory|memory limit|Search not completed' pan.log &&
		! grep -q 'assertion violated' pan.log; then
		cat pan.log
		echo "the search was not complete: $1" >&2
		exit 1
	fi
	found=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' pan.log)
	states=$(awk '/states, stored/ { print $1 }' pan.log)
	seconds=$((SECONDS - began))
	if [[ -z $found || -z $states ]]; then cat pan.log; exit 1; fi
}

holds() {
	search "$1"
	if ((found)); then
		echo "VIOLATED: $2" >&2
		# shellcheck disable=SC2086 # several defines
		spin $1 -t -p -g -k token.pml.trail "$model" 2>/dev/null | tail -n 60 >&2 || true
		cat pan.log >&2
		exit 1
	fi
	printf 'holds   %9d states %3d s  %s\n' "$states" "$seconds" "$2"
}

caught() {
	search "-D$1 $2"
	if ! ((found)); then
		echo "NOT CAUGHT: $1 ($3)" >&2
		exit 1
	fi
	printf 'caught  %9d states %3d s  %-18s %s\n' "$states" "$seconds" "$1" "$3"
}

two='-DATTEMPTS=2'
holds "$two -DFORGETS=1" '2 attempts at once, a node forgets once'
holds '-DATTEMPTS=3 -DFORGETS=0' '3 attempts, 2 at once'
holds '-DATTEMPTS=3 -DAT_ONCE=1 -DFORGETS=2' '3 attempts in turn, nodes forget twice'

caught NO_WRITE_BACK "$two -DAT_ONCE=1 -DFORGETS=1" 'a renewal does not copy the token'
caught MAX_WITHOUT_RAISE "$two -DFORGETS=0" 'the highest of different tokens, without the raise'
caught ANY_VALUE "$two -DFORGETS=0" 'different tokens count as agreement'
caught EQUAL_GRANT "$two -DFORGETS=0" 'a node grants a token again'
caught RAISE_ANYWHERE "$two -DFORGETS=0" 'a raise where the lock is no longer held'
caught NO_ABSTENTION '-DATTEMPTS=3 -DFORGETS=1' 'a node that forgot votes at once'
caught FORGET_ANY_TIME "$two -DFORGETS=1" 'the assumption is needed: a node forgets before the copy'
