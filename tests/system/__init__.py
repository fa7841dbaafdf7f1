"""Tests of several processes: drain, outages, edits, two nodes, production, upgrades."""
