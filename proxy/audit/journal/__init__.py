"""The journal: exchanges on disk before they reach the database, and their recovery after a crash."""
