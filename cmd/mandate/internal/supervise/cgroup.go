package supervise

// cgroup is the directory of the control group that the command runs in; empty: it has
// none. The kernel kills all members of one in a single step, those that fork meanwhile
// too, whatever their parent is by now and whichever user they run as. Only Linux has it,
// and only where the group that mandate itself is in was delegated.
type cgroup string
