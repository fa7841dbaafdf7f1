"""Traffic sums per hour and minute, and the figures that pages and metrics show of them."""
