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

// checkpoint says which rows of the table were fed: all up to High, except those
// in the gaps. A row that commits late has a lower id than rows that were fed before
// it, so an id that is missing may still come; it is looked for until it is overdue.
type checkpoint struct {
	High int64 `json:"high"`
	Gaps []gap `json:"gaps,omitempty"` // ascending, apart from each other
}

// gap is a run of ids that were not there when a higher one was.
type gap struct {
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	Since int64 `json:"since"` // when it was first seen, in ms by the queue's clock
}

// maxGaps is how many missing runs of ids are looked for at a time. Beyond it no
// new rows are read until some have come or are overdue: rather late than lost.
const maxGaps = 5000

// reading is what one look at the table brought.
type reading struct {
	at     time.Time // before the first row was read, by the queue's clock
	rows   []event   // ascending, the late ones first
	gapsTo int64     // the gaps were read up to this id
}

// allGaps is the gapsTo of a reading that was not cut short.
const allGaps = math.MaxInt64

// after is the checkpoint when all rows of a reading are fed. A gap is given up
// only by a reading that looked into it when it was overdue already: so a row that
// commits within the limit is always seen.
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
