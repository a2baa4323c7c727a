module github.com/mandate-dev/mandate/elector/proof/internal/chaos

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/mandate-dev/mandate v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-redsync/redsync/v4 v4.17.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/mod v0.21.0 // indirect
)

replace github.com/mandate-dev/mandate => ../../../..
