package main

// programs are what the test binary stands in for in scripts and processes.
func programs() map[string]func() int {
	return map[string]func() int{"mandate": program, "beater": beater, "embedder": embedder}
}
