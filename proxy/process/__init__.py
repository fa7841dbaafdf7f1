"""Life cycle of a gateway process.

    supervisor      the parent of several workers: restarts them, forwards signals
    drain           graceful stop: waits for open answers, then flushes and ends
    heartbeat       reports the process's state to the database, for the dashboard
    loop_watchdog   measures and logs a blocked event loop

May import the models and the packages below them.
"""
