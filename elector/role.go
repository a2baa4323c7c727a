package elector

// Role is what a candidate does in its election right now.
type Role string

// The roles, in the order in which a candidate takes them. Only machine.become
// changes the role.
const (
	RoleIdle      Role = "idle"      // not a candidate: Run and Campaign are not running
	RoleFollowing Role = "following" // campaigning, or waiting while another leads
	RoleLeading   Role = "leading"   // serving a term
	RoleStopping  Role = "stopping"  // the term has ended, its work has not returned yet
	RoleResting   Role = "resting"   // cooling down before the next campaign
	RoleObserving Role = "observing" // Config.Observer: it follows, and never campaigns
)

// leadsTo lists the roles that may follow each role.
var leadsTo = map[Role][]Role{
	RoleIdle:      {RoleFollowing, RoleObserving},
	RoleFollowing: {RoleLeading, RoleIdle},
	RoleLeading:   {RoleStopping},
	RoleStopping:  {RoleResting, RoleFollowing, RoleIdle},
	RoleResting:   {RoleFollowing, RoleIdle},
	RoleObserving: {RoleIdle},
}
