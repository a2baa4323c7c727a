package fence

// Slot is tested against a server's.
var Slot = slot
