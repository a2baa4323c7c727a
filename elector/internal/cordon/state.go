package cordon

import "github.com/mandate-dev/mandate/elector/internal/protocol"

// state is what is known of one node.
type state struct {
	cordons    map[string]protocol.Cordon // by id; nil: the node has not answered yet
	known      bool                       // the node has answered since it was last out of reach
	tried      bool                       // a read was attempted since then, successful or not
	losses     int                        // how often the subscription was lost
	subscribed bool
	logged     bool // that the node refuses the read
}

// states are the states of all nodes.
type states []state

// any reports whether a node has shown any cordon.
func (all states) any() bool {
	for _, st := range all {
		if len(st.cordons) > 0 {
			return true
		}
	}
	return false
}

// cordons returns the cordons that each node has shown.
func (all states) cordons() []map[string]protocol.Cordon {
	byNode := make([]map[string]protocol.Cordon, len(all))
	for i, st := range all {
		byNode[i] = st.cordons
	}
	return byNode
}

// known reports whether a majority of the nodes is known, or all were tried.
func (all states) known(majority int) bool {
	known, tried := 0, 0
	for _, st := range all {
		if st.known {
			known++
		}
		if st.tried {
			tried++
		}
	}
	return known >= majority || tried == len(all)
}
