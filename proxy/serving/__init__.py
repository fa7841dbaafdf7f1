"""The hot path: a request from its admission to the last byte of its answer.

Handler and views, keys and quotas, the relay with its attempts, retries and deadlines, and the
runtime that holds what one server process needs. Never touches the database while it serves. May
import every package below it: `audit`, `upstreams`, `configuration`, `process`, `http`.
"""
