package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/fence"
)

// receiver is a service that leaders write to over HTTP.
type receiver struct {
	mu     sync.Mutex
	newest uint64
	value  string
}

// ServeHTTP compares and sets the token under the lock of the write itself.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	token, err := strconv.ParseUint(req.Header.Get("Fencing-Token"), 10, 64)
	if err != nil || token == 0 {
		http.Error(w, "send the token of your term in Fencing-Token", http.StatusBadRequest)
		return
	}
	value := req.FormValue("value") // what may block comes before the lock
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.newest {
		http.Error(w, "another leader was elected", http.StatusPreconditionFailed)
		return
	}
	r.newest, r.value = token, value
}

// Any receiver can check tokens: it compares and sets in the step that writes.
func Example_receiver() {
	service := httptest.NewServer(&receiver{})
	defer service.Close()
	write := func(token uint64, value string) string { // token: term.Token()
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPut, service.URL+"?value="+value, nil)
		if err != nil {
			panic(err)
		}
		req.Header.Set("Fencing-Token", strconv.FormatUint(token, 10))
		resp, err := service.Client().Do(req)
		if err != nil {
			panic(err)
		}
		defer resp.Body.Close()
		return resp.Status
	}
	fmt.Println(write(7, "a"))
	fmt.Println(write(8, "b")) // the next leader
	fmt.Println(write(7, "a")) // the old one wakes up
	// Output:
	// 200 OK
	// 200 OK
	// 412 Precondition Failed
}

// The checkpoint of a poller moves in the step that feeds the queue.
func ExampleRedis_Run() {
	embedded, err := miniredis.Run() // yours is a redis-server
	if err != nil {
		panic(err)
	}
	defer embedded.Close()
	client := redis.NewClient(&redis.Options{Addr: embedded.Addr()})
	defer client.Close()

	orders, err := fence.NewRedis(client, "{orders}:mark")
	if err != nil {
		panic(err)
	}
	feed := fence.NewScript(`
		redis.call('XADD', KEYS[1], '*', 'order', ARGV[1])
		redis.call('SET', KEYS[2], ARGV[2])
		return 'fed'`)
	for _, token := range []uint64{7, 8, 7} { // term.Token()
		got, err := orders.Run(context.Background(), token, feed,
			[]string{"{orders}:queue", "{orders}:checkpoint"}, "book", 1).Text()
		fmt.Println(got, errors.Is(err, fence.ErrStale))
	}
	// Output:
	// fed false
	// fed false
	//  true
}

// A guarded transaction of database/sql. It has no output here because this module
// requires no SQL driver; sqltest runs the same on three databases.
func ExampleSQL_Guard() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:orders.db") // or "pgx" or "mysql", with their dialects below
	if err != nil {
		panic(err)
	}
	defer db.Close()
	marks, err := fence.NewSQL(fence.SQLite, "")
	if err != nil {
		panic(err)
	}
	if err := marks.Create(ctx, db); err != nil {
		panic(err)
	}
	bill := func(token uint64) error { // token: term.Token()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := marks.Guard(ctx, tx, "bills", token); err != nil {
			return err // of token 7 after 8: fence.ErrStale, and nothing is written
		}
		// ... read and write here
		return tx.Commit()
	}
	for _, token := range []uint64{7, 8, 7} {
		fmt.Println(errors.Is(bill(token), fence.ErrStale))
	}
}

// One tick of a job runs once, whoever leads. The schedule may be robfig/cron's: its Next.
func ExampleOnce_Do() {
	embedded, err := miniredis.Run() // yours is a redis-server
	if err != nil {
		panic(err)
	}
	defer embedded.Close()
	client := redis.NewClient(&redis.Options{Addr: embedded.Addr()})
	defer client.Close()

	ticks, err := fence.NewOnce(client, election("reports")) // yours is elector.Elector.Election
	if err != nil {
		panic(err)
	}
	hourly := func(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) }
	tick, err := fence.Latest(hourly, time.Now())
	if err != nil {
		panic(err)
	}
	for _, token := range []uint64{7, 8} { // term.Token()
		tick.Job, tick.Token = "mail", token
		err := ticks.Do(context.Background(), tick, func(context.Context) error {
			fmt.Println("sent with token", token)
			return nil
		})
		fmt.Println(errors.Is(err, fence.ErrRan))
	}
	// Output:
	// sent with token 7
	// false
	// true
}
