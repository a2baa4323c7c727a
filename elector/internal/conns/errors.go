package conns

import (
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// broken reports whether a connection can't be used again after err, for a connection of which
// go-redis does not show that.
func broken(err error) bool {
	var answer redis.Error
	return err != nil && (!errors.As(err, &answer) || redis.IsReadOnlyError(err))
}

// late reports whether err is a time-out, after which the connection may still work.
func late(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}
