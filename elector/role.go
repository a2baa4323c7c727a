package elector

// The roles, in the order in which a candidate takes them. Only machine.become
// changes the role.
const (
	roleIdle      = "idle"      // not a candidate: Run and Campaign are not running
	roleFollowing = "following" // campaigning, or waiting while another leads
	roleLeading   = "leading"   // serving a term
	roleStopping  = "stopping"  // the term has ended, its work has not returned yet
	roleResting   = "resting"   // cooling down before the next campaign
	roleObserving = "observing" // Config.Observer: it follows, and never campaigns
)

// leadsTo lists the roles that may follow each role.
var leadsTo = map[string][]string{
	roleIdle:      {roleFollowing, roleObserving},
	roleFollowing: {roleLeading, roleIdle},
	roleLeading:   {roleStopping},
	roleStopping:  {roleResting, roleFollowing, roleIdle},
	roleResting:   {roleFollowing, roleIdle},
	roleObserving: {roleIdle},
}
