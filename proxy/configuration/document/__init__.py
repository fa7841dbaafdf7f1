"""The whole configuration as one YAML document, without secrets, so that it can live in git.

`write` makes it of the rows, `read` makes a draft of it, `apply` makes rows of the draft, all or
nothing, and `difference` says what that changed. A dry run is an import that is taken back.
"""
