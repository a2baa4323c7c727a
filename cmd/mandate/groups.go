package main

import (
	"fmt"
	"strings"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/shard"
)

// groupCells returns the cells of a group's row, from the name to the condition.
func (r *report) groupCells() ([]string, output.Color) {
	g, condition, color := r.group, "", output.Plain
	if g.gone && !g.missed {
		color = output.Dim
	}
	owned, able := g.owned(), g.able()
	if r.StatusErr != nil {
		owned, able = stateUnknown, "?"
	}
	if p := r.problem(); p.Level != "" {
		condition, color = p.Found, levelColor(p.Level)
	}
	return []string{r.Election, owned, "-", "-", able, "-", condition}, color
}

// groupReport is a group of shards as one row of a list. A thousand rows of healthy shards would
// hide the one that is not.
type groupReport struct {
	shard.Status

	listed shard.Set // shards that have an election
	gone   bool      // it has no members
	missed bool      // and had an assigner within the last day
}

func (g *groupReport) state() string {
	switch {
	case g.gone && !g.missed:
		return stateAbandoned
	case g.gone, len(g.Unowned) == g.Shards:
		return stateVacant
	default:
		return stateLed
	}
}

func (g *groupReport) owned() string {
	if g.gone {
		return fmt.Sprintf("%s (%d shards)", g.state(), g.Shards)
	}
	return fmt.Sprintf("%d/%d owned", g.Shards-len(g.Unowned), g.Shards)
}

func (g *groupReport) able() string { return fmt.Sprintf("%d/%d", g.open(), len(g.Members)) }

// open returns how many of the members want shards.
func (g *groupReport) open() int {
	return howMany(g.Members, func(m shard.MemberStatus) bool { return m.Closed == "" })
}

// groupFindings returns what is wrong with a group, the most serious first.
func (r *report) groupFindings() (all []doctor.Finding) {
	g, next := r.group, r.flags.command("shards", r.group.Group)
	add := func(check string, level doctor.Level, advice, found string, args ...any) {
		all = append(all, doctor.Finding{Check: check, Level: level, Found: fmt.Sprintf(found, args...), Advice: advice})
	}
	switch {
	case r.StatusErr != nil:
		add("majority", doctor.LevelFail, r.flags.command("doctor"), "%v", r.StatusErr)
		return all
	case g.missed:
		add("gone", doctor.LevelFail, r.flags.command("history", shard.ElectionOfAssigner(g.Group)), "no member answers: none is running, or Redis refuses them")
		return all
	case g.gone:
		return nil
	}
	if len(g.Unowned) > 0 {
		add("shards", doctor.LevelFail, next, "%d of %d shards have no owner: %s (%s)", len(g.Unowned), g.Shards, unowned(g.Status), g.Unowned[0].Why)
	}
	if g.Assigner == "" {
		add("assigner", doctor.LevelWarn, next, "no assigner: shards stay where they are")
	}
	if len(g.Missing) > 0 {
		add("members", doctor.LevelWarn, next, "members missing: %d, such as %s", len(g.Missing), g.Missing[0].ID)
	}
	for i := range g.Members { // who owns one or two shards can't own them more evenly
		if m := &g.Members[i]; m.Due > 0 && len(m.Owned) > 2 && float64(len(m.Owned)) > 1.5*m.Due {
			add("members", doctor.LevelWarn, next, "%s owns %d shards, and %s are due to it", m.ID, len(m.Owned), formatNumber(m.Due))
		}
	}
	if why, advice := failing(g.Status, r.flags); why != "" {
		add("shards", doctor.LevelWarn, advice, "%s", why)
	}
	return all
}

func unowned(st shard.Status) string {
	var all shard.Set
	for _, v := range st.Unowned {
		all = append(all, v.Shard)
	}
	return all.String()
}

// failing returns the shard that most members have failed at lately, if there are several, and the command that
// shows why: its work fails, and moves from one to the next.
func failing(st shard.Status, flags nextFlags) (why, next string) {
	who, worst := map[int][]string{}, 0
	for _, m := range st.Members {
		for _, s := range m.Unable {
			if who[s] = append(who[s], m.ID); len(who[s]) > len(who[worst]) {
				worst = s
			}
		}
	}
	if len(who[worst]) < 2 {
		return "", ""
	}
	return fmt.Sprintf("shard %d is left by %s for now, after failed work or a step-down", worst, strings.Join(who[worst], ", ")), flags.command("status", shard.ElectionOf(st.Group, worst))
}
