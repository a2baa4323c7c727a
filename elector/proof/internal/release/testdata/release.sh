# What `make release` refuses, and what people get from it. $2: the URL of a Redis.
source "$(dirname "$0")/lib.sh"
arch=$(go env GOARCH)
export TARGETS=linux/$arch GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost

git clone -q --no-tags repo mandate
cd mandate

# refused VERSION WHY
refused() {
	if make release VERSION="$1" >"$work/out" 2>&1; then fail "VERSION=$1 was not refused"; fi
	has "$work/out" "$2"
	[[ ! -e dist ]] || fail 'a refused release has left dist/'
}
refused 0.1 'give a semantic version'
refused "$version" 'CHANGELOG.md has no section'
echo >>LICENSE
refused "$version" 'not committed'
git checkout -q LICENSE
git tag "cmd/mandate/$version"
refused "$version" "the tag cmd/mandate/$version exists"
git tag -d "cmd/mandate/$version"
refused v0.2.0 'requires another version of the library'

sed -i 's/^## \[Unreleased\]/&\n\n## [0.1.0] - 2026-11-26/' CHANGELOG.md
git commit -qam 'Begin the section of the release'
refused "$version" 'README.md says that it is not published'
sed -i -E 's/not (published|released) yet/published/' README.md docs/compatibility.md
git commit -qam 'Say that it is published'
make release VERSION="$version"
read -ra tags <<<"$(git tag | paste -sd ' ')"
[[ ${tags[*]} == 'cmd/mandate/v0.1.0 v0.1.0' ]] || fail "tags: ${tags[*]}"

# The bill of materials names what is linked, and its licenses.
for name in stdlib github.com/redis/go-redis/v9 github.com/spf13/cobra golang.org/x/crypto/x509roots/fallback; do
	has dist/mandate_0.1.0.cdx.json "\"name\": \"$name\""
done
[[ $(grep -c '"name": .*"licenses": \[{' dist/mandate_0.1.0.cdx.json) == $(grep -c '"name": ' dist/mandate_0.1.0.cdx.json) ]] || fail 'a component without a license'

# with FOLDER: it has what an operator reads at night, and the licenses of all that is linked.
with() {
	local file
	for file in copyright README.md docs/{runbook.md,redis.md,redis.acl,alerts.yml} examples/python/mandate.py; do
		[[ -s $1/$file ]] || fail "there is no $file in $1"
	done
	(
		cd "$1"
		while IFS=: read -r file link; do
			[[ -e ${file%/*}/${link:2:-1} ]] || fail "$file links ${link:2:-1}, which is not there"
		done < <(grep -roE '\]\([^)#:]+[)#]' --include='*.md' .)
	)
	has "$1/copyright" 'stdlib go' 'Apache License' 'Neither the name' 'prometheus/procfs' 'spf13/cobra' 'NOTICE'
}
tar -xzf "dist/mandate_0.1.0_linux_$arch.tar.gz" -C "$work"
with "$work/mandate_0.1.0_linux_$arch"
"$work/mandate_0.1.0_linux_$arch/mandate" --version >/dev/null

# The Debian package, installed in a folder of its own.
mkdir -p "$work/deb/var/lib/dpkg/updates"
touch "$work"/deb/var/lib/dpkg/{status,available}
deb=dist/mandate_0.1.0_$arch.deb
if ((EUID == 0)); then
	dpkg --root="$work/deb" --force-not-root --log="$work/log" -i "$deb"
else # dpkg would change root
	dpkg-deb -x "$deb" "$work/deb"
fi
cd "$work/deb"
usr/bin/mandate --version >"$work/out"
has "$work/out" "mandate $version "
with usr/share/doc/mandate
[[ $(stat -c %a etc/default/mandate) == 600 ]] || fail 'all may read the URLs in /etc/default/mandate'
gzip -dc usr/share/man/man1/mandate.1.gz >"$work/out"
has "$work/out" '.SH "mandate run"'
# go.work must select what `go install` does: else the binary that people get is not the tested one.
go version -m usr/bin/mandate | awk -v library="$library" '$1 == "dep" && $2 != library { print $2, $3 }' >"$work/linked"
(($(wc -l <"$work/linked") >= 10)) || fail "few modules are linked: $(<"$work/linked")"
while read -r linked; do has usr/share/doc/mandate/copyright "$linked: "; done <"$work/linked"
(cd "$root" && cut -d ' ' -f 1 "$work/linked" | GOWORK='' xargs go list -m -f '{{.Path}} {{.Version}}') >"$work/tested"
diff "$work/linked" "$work/tested" || fail 'go install takes other versions than the tests: require these in cmd/mandate/go.mod'
# systemd reports a command that is not there.
printf '#!/bin/sh\n' >etc/mandate/reports
chmod 700 etc/mandate/reports
sed -e "s,\([ =]\)/usr/bin/mandate,\1$PWD/usr/bin/mandate,g" -e "s, /etc/mandate/, $PWD/etc/mandate/,g" \
	usr/lib/systemd/system/mandate@.service >"$work/mandate@reports.service"
said=$(systemd-analyze verify --man=no "$work/mandate@reports.service")
[[ -z $said ]] || fail "systemd-analyze: $said"

# What is in the image runs as its user, with nothing around it.
mkdir -m 755 "$work/image" "$work/tree"
tar -xf "$work/mandate/dist/mandate_0.1.0_image.tar" -C "$work/image"
cd "$work/image/blobs/sha256"
for blob in *; do echo "$blob  $blob"; done | sha256sum -c --quiet
digests() { grep -o '"digest": "sha256:[0-9a-f]*"' "$1" | grep -oE '[0-9a-f]{64}'; }
index=$(digests ../../index.json)
image=$(digests "$index") # one, else there is no such file
has "$index" "\"architecture\": \"$arch\""
read -r config layer <<<"$(digests "$image" | paste -sd ' ')"
has "$config" '"User": "65532:65532"' '["/usr/bin/mandate"]'
if ((EUID == 0)); then
	tar -xf "$layer" -C "$work/tree"
	has "$work/tree/usr/share/doc/mandate/copyright" 'spf13/cobra'
	[[ $(chroot --userspec=65532:65532 "$work/tree" /usr/bin/mandate ls --json --redis "$2") == '[]' ]] || fail 'mandate ls finds an election'
fi

# What the compiler made is the same by its cache; what is linked and packed is made again, elsewhere.
cp -a "$work/mandate" "$work/elsewhere"
cd "$work/elsewhere"
git tag -d "${tags[@]}"
TZ=Pacific/Auckland make release VERSION="$version"
diff "$work/mandate/dist/SHA256SUMS" dist/SHA256SUMS || fail 'built twice, not the same'
