package main

import "strings"

// condition is the text beside an election in a list: what is wrong with it, and what to type next.
func (r *report) condition() string {
	var all []string
	add := func(word, verb string) { all = append(all, word+": "+r.flags.command(verb, r.Election)) }
	if r.Paused && r.Leader != nil {
		all = append(all, "paused")
	}
	if r.unresponsive {
		add("UNRESPONSIVE", "status")
	}
	if r.Conflict != "" {
		add("CONFLICT", "doctor")
	}
	if r.Blocked != "" {
		add("BLOCKED", "status")
	}
	if r.flaps != "" {
		add("FLAPPING", "history")
	}
	if word := r.concern(); word != "" && len(all) == 0 {
		why, next := r.problem()
		if r.Leader == nil {
			why = strings.Trim(r.firstUnable(), " ()")
		}
		word += ": " + next
		if why != "" {
			word += " (" + why + ")"
		}
		all = append(all, word)
	}
	if r.AllowOlder != "" {
		all = append(all, "older allowed")
	}
	return strings.Join(all, " ")
}

// concern returns a word for what is wrong with the candidates; empty: nothing, or it is unknown.
func (r *report) concern() string {
	switch state := r.state(); {
	case state == stateVacant && len(r.roll) == 0:
		return "NO CANDIDATES"
	case state == stateVacant && r.able() == 0 && r.first():
		return "NEVER LED"
	case state == stateVacant && r.able() == 0:
		return "NONE ABLE"
	case state != stateLed:
		return ""
	}
	if why, _ := r.candidateProblem(); why != "" {
		return "DEGRADED"
	}
	return ""
}
