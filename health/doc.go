// Package health answers one question, cheaply and without ever blocking on it:
// is this process fit to lead?
//
// A [Probe] checks one thing. A [Runner] runs a probe again and again in the
// background and keeps a [Status] which is safe to read on any path, also on the
// one that renews a lease: reading it does no I/O and never waits for a probe.
//
// # Two roles
//
// A candidate probe looks at what a process needs before it may lead: its database,
// its disk, its network. It is checked at all times. Run it with [Runner.Run], which counts
// as unhealthy until the first success.
//
// A work probe looks at work that only a leader does: a [Heartbeat], a port that
// only the leader opens. It can pass only while the work runs. Run it with
// [Runner.RunArmed] for the length of one term: the start counts as the first
// success. As a candidate probe it would shut every candidate out for ever.
//
// # What a runner promises
//
//   - One probe run at a time. A probe that ignores its context and hangs for ever
//     costs one goroutine, however long it hangs.
//   - A run that takes longer than [Settings.Timeout] is a failure, and each interval
//     that it keeps hanging is one more. A panic is a failure.
//   - Thresholds: [Settings.Failures] in a row to become unhealthy, [Settings.Successes] in
//     a row to recover. One error marked with [Definite] is enough.
//
// Time is Go's monotonic time, except for [FileAge], which has to compare with the
// file system's clock. After the process was suspended, the last verdict counts until the next run has ended,
// which begins at once.
package health
