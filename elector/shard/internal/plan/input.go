package plan

// NoMember is the index of no member.
const NoMember = -1

// Member is a member of the group.
type Member struct {
	ID     string
	Weight float64 // its part of the load, relative to the other members; above zero
	Closed bool    // it keeps no shards and is given none: stopping, unhealthy or cut off
	Unable []int   // shards that it can't serve for now
}

// Input is what a plan is made from.
type Input struct {
	Members []Member
	Loads   []float64 // by shard; nil, or below zero: unknown, counts as the average of the others
	Shards  int
	Owner   []int // by shard: the member that owns it, or NoMember
	Planned []int // by shard: the member of the last plan, or NoMember
	// Guest is by shard: true if the shard is planned for its member only because the former
	// member has gone. A member that joins is given guests first, so that in a rolling restart
	// each shard moves at most twice.
	Guest []bool
}

func (in Input) guest(s int) bool { return s < len(in.Guest) && in.Guest[s] }

func at(list []int, i int) int {
	if i < len(list) {
		return list[i]
	}
	return NoMember
}
