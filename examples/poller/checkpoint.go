package main

import (
	"math"
	"time"
)

// event is a row of the legacy table.
type event struct {
	ID            int64
	Type, Payload string
}

// checkpoint describes which rows of the table were fed: all up to High, except those in the gaps.
// A row that commits late has a lower id than rows that were fed before it, so a missing id may
// still appear; it is looked for until it is overdue.
type checkpoint struct {
	High int64 `json:"high"`
	Gaps []gap `json:"gaps,omitempty"` // ascending, apart from each other
}

// gap is a range of ids that were missing when a higher one was seen.
type gap struct {
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	Since int64 `json:"since"` // when it was first seen, in ms by the queue's clock
}

// maxGaps bounds how many missing ranges of ids are looked for. Beyond it no new rows are read
// until some have appeared or are overdue: late is better than lost.
const maxGaps = 1000

// reading is the result of one poll of the table.
type reading struct {
	at     time.Time // before the first row was read, by the queue's clock
	rows   []event   // ascending, late rows first
	gapsTo int64     // the gaps were read up to this id
}

// allGaps is the gapsTo of a reading that has read all gaps.
const allGaps = math.MaxInt64

// after returns the checkpoint after all rows of a reading were fed. It gives up a gap only if the
// reading has looked into the gap after it was overdue: so a row that commits within the limit is
// always seen.
func (c checkpoint) after(r reading, limit time.Duration) checkpoint {
	next := checkpoint{High: c.High}
	rows := r.rows
	for _, g := range c.Gaps {
		for len(rows) > 0 && rows[0].ID <= g.To {
			if id := rows[0].ID; id > g.From {
				next.keep(gap{g.From, id - 1, g.Since}, r, limit)
			}
			g.From = rows[0].ID + 1
			rows = rows[1:]
		}
		if g.From <= g.To {
			next.keep(g, r, limit)
		}
	}
	for _, row := range rows {
		if row.ID > next.High+1 {
			next.Gaps = append(next.Gaps, gap{next.High + 1, row.ID - 1, r.at.UnixMilli()})
		}
		next.High = row.ID
	}
	return next
}

func (c *checkpoint) keep(g gap, r reading, limit time.Duration) {
	overdue := r.at.Sub(time.UnixMilli(g.Since)) > limit
	if !overdue || g.To > r.gapsTo {
		c.Gaps = append(c.Gaps, g)
	}
}
