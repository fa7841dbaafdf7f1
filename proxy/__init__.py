"""The gateway as a Django app, in packages. pyproject.toml lists their layers, top to bottom.

errors       the table of error codes: status, sentence, retry and headers of each
validators   checks of single fields, for forms and the database
roles        the permissions of each role
checks       rejects weak settings in production
"""
