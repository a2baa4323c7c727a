// Package fence makes a resource refuse the writes of old leaders.
//
// A leader can be paused for any time between the check that it leads and a write: by
// the garbage collector, by SIGSTOP, by the machine under it. When it resumes,
// another candidate may lead. So the resource that leaders write to must itself refuse old
// leaders: every write carries the token of its term (elector.Term.Token), and the resource
// remembers the largest token that it has seen (its mark), and refuses a smaller one with
// [ErrStale]. The check and the write must be one atomic step: otherwise the pause can fall
// between them.
//
// # Redis
//
// [Redis] runs a script under such a guard:
//
//	orders, err := fence.NewRedis(client, "{orders}:mark")
//	err = orders.Run(ctx, term.Token(), script, []string{"{orders}:queue"}, payload).Err()
//	if errors.Is(err, fence.ErrStale) { ... } // nothing was written: stop, another leads
//
// The mark is a key beside the data. A stale leader is refused from the
// successor's first write on. A successor that wants this to begin earlier raises the
// mark ([Redis.Raise]) as the first thing in its term. On Cluster the mark and the data
// share a hash tag, as above.
//
// A mark that no fence has written (but an operator, or another program) refuses every
// token, because it is not known whether a token is old. The error is an ErrStale, so that
// no leader continues to write, and also an [ErrForeignMark]: a new leader does not help, an
// operator has to fix the mark.
//
// When the data is on the one Redis that holds the election (a quorum of one),
// [OnElection] reads the election's own counter instead. The counter grows at the
// election, so a stale leader is refused before the successor has written anything.
// It can't be the mark with a quorum of 3 or 5: there a losing candidate, with the
// votes of a minority, may have raised the counter of one node above the token of the
// sitting leader, and that node would refuse the rightful leader.
//
// # SQL
//
// [SQL] guards a transaction of the caller's on a small table of marks:
//
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	if err := marks.Guard(ctx, tx, "orders", term.Token()); err != nil { return err }
//	... // read and write
//	return tx.Commit()
//
// tx is a transaction of database/sql or of an ORM that is built on it ([Tx]);
// [SQL.GuardFunc] takes those of other packages, such as pgx.
//
// Call Guard first in the transaction: it locks the mark's row, so that the
// transactions of two leaders run one after the other, and the later one reads what the
// earlier one wrote. A leader that is paused inside its transaction makes its successor
// wait for that row. Bound that wait on the server
// (PostgreSQL: idle_in_transaction_session_timeout, below the lease).
//
// # One tick, once
//
// A leader is not enough for a scheduler: A runs the job of 12:00 and hands over, the clock of B is 200 ms
// behind, its own 12:00 comes, and it runs the job again, with a newer token. Package elector/schedule prevents this, and is
// what most programs want. [Once] is for a loop of one's own. For each job it keeps a mark: the newest tick that was decided, by its
// ideal time, which is the same on every clock, and the newest token of any request. A tick is taken only if it is later, by a
// token that is not older:
//
//	ticks, err := fence.NewOnce(client, e.Election())
//	tick, err := fence.Latest(schedule.Next, time.Now())
//	tick.Job, tick.Token = "mail", term.Token()
//	err = ticks.Do(ctx, tick, sendMail)
//	if errors.Is(err, fence.ErrRan) { ... } // this tick, or a later one, was taken before
//
// The tick is taken before the job begins. What becomes of it:
//
//	the job returned                        it ran once; the mark records how it ended (Taken.Run)
//	the job returned an ErrNothingDone      it may run again, until a later one is taken
//	the process died before it was taken    the next leader may run it, until it is older than Tick.Within
//	the process died after that             it is not run again, also if the job had not begun; the next leader logs that
//	no answer from Redis within ctx         the job is not run; the same Attempt may try again
//	nobody ran it                           the next one that is run, or is too old, records it with its Why (Taken.Skipped), and logs it
//	a clock was ahead when it was taken     the job is blocked until then (Taken.Blocked), or until the mark is deleted
//	Redis lost the mark                     it may run again: a database is safer, see OnceSQL
//
// [OnceSQL] keeps the marks in a table, without runs by hand and gaps. [OnceSQL.Take] raises the mark in the transaction in which the
// job writes: the tick is then taken if and only if its writes are committed, exactly once.
//
// # Anything else
//
// Send the token with each write (for HTTP, in a header named Fencing-Token), and let the
// receiver compare it and raise its mark under the lock, or in the transaction, of the write
// itself; the example "Receiver" shows this. A receiver with several replicas needs
// one place for its mark, such as one of the two above. A resource that can only
// compare versions (If-Match, a conditional put) works too, if the token is part of the
// version.
package fence
