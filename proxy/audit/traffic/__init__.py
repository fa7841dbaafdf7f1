"""Traffic sums per hour and per day.

aggregation   adds exchanges to the sums
range_query   queries the sums for a time range of the dashboard
histogram     percentiles of durations from counts per bucket
"""
