package conns

import (
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// broken reports whether a connection can't be used again after err, where go-redis does
// not report it.
func broken(err error) bool {
	var answer redis.Error
	return err != nil && (!errors.As(err, &answer) || redis.IsReadOnlyError(err))
}

// late reports that an answer did not come in time: the connection may be healthy.
func late(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}
