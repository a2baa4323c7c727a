package plan

// NoMember is the index of no member.
const NoMember = -1

// Member is one that shards can be planned for.
type Member struct {
	ID     string
	Weight float64 // its part of the load, relative to the others; above zero
	Closed bool    // it keeps nothing and is given nothing: drained, or about to stop
	Full   bool    // it keeps what it owns and is given nothing: cordoned
	Unable []int   // shards that it can't serve for now
}

// Input is what a plan is made from.
type Input struct {
	Members []Member
	Loads   []float64 // by shard; nil, or below zero: as heavy as the others on average
	Shards  int
	Owner   []int // by shard: the member that owns it, or NoMember
	Planned []int // by shard: the member of the plan before, or NoMember
	// Guest is by shard whether it is where it is only because its former member has gone.
	// When another one comes, it is given these: so each shard moves twice in a rolling
	// restart, and no more.
	Guest []bool
}

func (in Input) guest(s int) bool { return s < len(in.Guest) && in.Guest[s] }

func at(list []int, i int) int {
	if i < len(list) {
		return list[i]
	}
	return NoMember
}
