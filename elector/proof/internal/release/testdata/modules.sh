# go fetches the modules by their tags, and a program builds with them: without the `replace` and the go.work of this repository.
source "$(dirname "$0")/lib.sh"

# The README's first Go code, in a package. (A program would be linked, too, which takes longer than the rest.)
code=$(awk '/^```go$/ { on = 1; next } /^```$/ { if (on) exit } on' "$root/README.md")
[[ $code == *'e.Run(ctx'* ]] || fail 'the README embeds the library in no Go code'
mkdir service
cd service
cat >service.go <<GO
package service

import (
	"context"
	"time"

	"$library/elector"
	"$library/health"
	"github.com/redis/go-redis/v9/logging"
)

func poll(context.Context, *health.Heartbeat, uint64) error { return nil }

func lead(ctx context.Context) error {
$code
}
GO
env "${environment[@]}" go mod init example.com/service
env "${environment[@]}" go get "$library/elector@$version"
env "${environment[@]}" go build ./...
env "${environment[@]}" go mod graph >graph
if grep -qF spf13/cobra graph; then fail 'who imports the library has cobra in the module graph'; fi
