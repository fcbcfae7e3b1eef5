"""Plain data about the work, the machine, the numbers and the schedule; the room that all others stand on."""
