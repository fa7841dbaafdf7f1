"""The journal: exchanges on disk until the database has them.

journal    writes the files of one process, within a size limit
entries    the entries as lines of JSON
reader     reads them back in order
recovery   stores the entries that killed processes left behind
"""
