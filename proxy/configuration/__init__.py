"""The configuration in force: snapshots, routing, edits, history, import and export.

May import the models and the packages below them.
"""
