package supervise

// cgroup is the directory of the control group that the command runs in; empty: it has none. The
// kernel kills all members of a cgroup in a single step, including those that fork meanwhile,
// whatever their parent and their user are. Only Linux has cgroups, and they can be used only where
// the cgroup of mandate itself was delegated.
type cgroup string
