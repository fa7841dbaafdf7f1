"""Commands of `manage.py`, one module each.

serve           migrates, creates the first rows, prints the start message, runs the server
code            starts Claude Code against this gateway
doctor          checks the set-up and says what to do
key, token      client keys; tokens of the management API
config          export, check and import of the YAML document
replay          decodes stored answers again; writes them as test fixtures
prune, erase    delete old rows; delete what one key or request left
migrate         Django's, for one node at a time
"""
