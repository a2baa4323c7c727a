package fence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OnceSQL is [Once] with its marks in a table, one row per job. Safe for concurrent use.
type OnceSQL struct {
	schema string
	table  string
	take   statement // takes a tick, unless the mark refuses it
	last   string    // returns the mark of a job
}

// NewOnceSQL returns the ticks in the given table; an empty name means "mandate_tick". It does no I/O.
func NewOnceSQL(dialect Dialect, table string) (*OnceSQL, error) {
	table = cmp.Or(table, "mandate_tick")
	if _, err := NewSQL(dialect, table); err != nil {
		return nil, err
	}
	text, long, engine := "VARCHAR(255)", "TEXT", ""
	o, last := &OnceSQL{table: table}, "SELECT mark FROM "+table+" WHERE job = "
	switch dialect {
	case PostgreSQL:
		o.last = last + "$1"
		o.take.write = "INSERT INTO " + table + " AS old (job, mark, token, tick) VALUES ($1, $2, $3, $4)" + onConflict
	case SQLite:
		o.last = last + "?1"
		o.take.write = "INSERT INTO " + table + " AS old (job, mark, token, tick) VALUES (?1, ?2, ?3, ?4)" + onConflict
	case MySQL:
		text, long, engine = "VARBINARY(255)", "VARBINARY(1000)", " ENGINE=InnoDB" // as for SQL
		o.last = last + "?"
		o.take.write = "INSERT INTO " + table + " (job, mark, token, tick) VALUES (?, ?, ?, ?)" + onDuplicate
		o.take.read = o.last + " FOR UPDATE"
	}
	o.schema = fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (\n  job %s NOT NULL PRIMARY KEY,\n  mark %s NOT NULL,\n"+
		"  token BIGINT NOT NULL,\n  tick BIGINT NOT NULL\n)%s", table, text, long, engine)
	return o, nil
}

// The row is written even if the mark refuses the tick: its lock makes two transactions run one after the other.
const onConflict = ` ON CONFLICT (job) DO UPDATE SET
  mark = CASE WHEN old.tick < excluded.tick AND old.token <= excluded.token THEN excluded.mark ELSE old.mark END,
  token = CASE WHEN old.tick < excluded.tick AND old.token <= excluded.token THEN excluded.token ELSE old.token END,
  tick = CASE WHEN old.tick < excluded.tick AND old.token <= excluded.token THEN excluded.tick ELSE old.tick END
RETURNING mark`

// MySQL sets the columns in this order, and compares what they hold by then: the tick, which decides, is the last.
const onDuplicate = ` ON DUPLICATE KEY UPDATE
  mark = IF(tick < VALUES(tick) AND token <= VALUES(token), VALUES(mark), mark),
  token = IF(tick < VALUES(tick) AND token <= VALUES(token), VALUES(token), token),
  tick = IF(tick < VALUES(tick) AND token <= VALUES(token), VALUES(tick), tick)`

// Schema returns the statement that creates the table, for users who keep their schema in migrations.
func (o *OnceSQL) Schema() string { return o.schema }

// Take takes a tick in the caller's transaction: it returns nil if no tick of the job at or after t has been taken,
// and none with a newer token. The tick is taken when the transaction commits, together with what the job wrote:
// exactly once. Otherwise the error is an ErrRan, an ErrSkipped or an ErrStale, and the caller must roll back.
//
// Call Take first in the transaction. Until that ends, Take blocks in every other one for the same job, as
// [SQL.Guard] does; only a rollback gives a tick back.
func (o *OnceSQL) Take(ctx context.Context, tx Tx, t Tick) error {
	return o.taken(t, func(args ...any) (string, error) { return o.take.run(ctx, tx, args...) })
}

// TakeFunc is Take for transactions of packages other than database/sql, as [SQL.GuardFunc] is for Guard.
func (o *OnceSQL) TakeFunc(ctx context.Context, queryRow func(ctx context.Context, query string, args ...any) Row, t Tick) error {
	return o.taken(t, func(args ...any) (string, error) { return o.take.runFunc(ctx, queryRow, args...) })
}

func (o *OnceSQL) taken(t Tick, take func(args ...any) (string, error)) error {
	if err := t.Check(); err != nil {
		return err
	}
	if t.At.IsZero() || t.ByHand {
		return fmt.Errorf("fence: job %s: a table has ticks only, not runs by hand", t.Job)
	}
	if t.late() {
		return t.skipped()
	}
	ours := fmt.Sprintf("%d %d %d %d %s %s", t.At.UnixMilli(), max(0, t.Next.UnixMilli()), t.Token, time.Now().UnixMilli(), NewAttempt(), t.By)
	mark, err := take(t.Job, ours, int64(t.Token), t.At.UnixMilli())
	switch {
	case err != nil:
		return fmt.Errorf("fence: taking the tick %s of %s in %s: %w", stamp(t.At), t.Job, o.table, err)
	case mark == ours:
		return nil
	}
	other, err := parseRow(o.table, t.Job, mark)
	if err != nil {
		return err
	}
	return t.refused(other)
}

// Last returns the newest tick of a job that was taken; the zero Taken if there is none. db is a *sql.DB or a
// [Tx].
func (o *OnceSQL) Last(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, job string,
) (Taken, error) {
	var mark string
	err := db.QueryRowContext(ctx, o.last, job).Scan(&mark)
	if errors.Is(err, sql.ErrNoRows) {
		return Taken{}, nil
	}
	if err != nil {
		return Taken{}, fmt.Errorf("fence: reading the tick of %s in %s: %w", job, o.table, err)
	}
	return parseRow(o.table, job, mark)
}

// parseRow parses the mark of a row: tick, the next one, token, when it was taken, the attempt, by whom.
func parseRow(table, job, mark string) (Taken, error) {
	f := strings.SplitN(mark, " ", 6)
	if len(f) < 6 {
		f = make([]string, 6) // of another program
	}
	return parseMark(table, job, map[string]string{
		"tick": f[0], "next": f[1], "token": f[2], "state": "taken", "what": f[0], "began": f[3], "ended": f[3], "of": f[2], "by": f[5], "outcome": string(OK),
	})
}
