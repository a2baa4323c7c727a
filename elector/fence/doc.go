// Package fence makes a resource refuse the writes of old leaders.
//
// A leader can be paused for any time between checking "do I lead" and writing: by
// the garbage collector, by SIGSTOP, by the machine under it. When it wakes up,
// another one leads. So whatever leaders write to must itself refuse them: every
// write brings the token of its term (elector.Term.Token), the resource remembers
// the largest one it has seen (its mark), and refuses a smaller one with
// [ErrStale]. Check and write must be one step, or the pause falls between them.
//
// # Redis
//
// [Redis] runs a script, or a set of commands, under such a guard:
//
//	orders, err := fence.NewRedis(client, "{orders}:mark")
//	err = orders.Run(ctx, term.Token(), script, []string{"{orders}:queue"}, payload).Err()
//	if errors.Is(err, fence.ErrStale) { ... } // nothing was written: stop, another leads
//
// The mark is a key beside the data. A stale leader is refused from the
// successor's first write on; a successor that wants it earlier writes something,
// or nothing ([Redis.Raise]), as the first thing in its term. On Cluster the mark
// and the data share a hash tag, as above.
//
// A mark that no fence has written (an operator did by hand, or another program) refuses every
// token: whether one is old is not known then. That is an ErrStale too, so that
// no leader continues to write, and [ErrForeignMark]: no new leader helps, an operator has to
// look.
//
// When the data lives on the very Redis that alone holds the election (a quorum
// of one), [OnElection] reads the election's own counter instead. That one grows
// at the election, so a stale leader is refused before the successor has written
// anything. It is no mark for a quorum of 3 or 5: there a candidate that lost, with
// the votes of a minority, may have raised the counter of one node above the
// sitting leader's token, and that node would refuse the rightful leader.
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
// Make it the first statement: it takes the lock on the mark's row, so that the
// transactions of two leaders come one after the other, and what the later one
// reads includes what the earlier one wrote. A leader that is paused inside its
// transaction makes its successor wait for that row; bound it on the server
// (PostgreSQL: idle_in_transaction_session_timeout, below the lease).
//
// # Anything else
//
// Send the token along (for HTTP, in a header named Fencing-Token), and let the
// receiver compare and set under the lock, or in the transaction, of the write
// itself; the example "Receiver" shows it. A receiver with several replicas needs
// one place for its mark, such as one of the two above. A resource that can only
// compare versions (If-Match, a conditional put) does too, when the token is part of what
// is compared.
package fence
