"""Traffic sums per hour and per day: written with the exchanges, and queried for a time range."""
