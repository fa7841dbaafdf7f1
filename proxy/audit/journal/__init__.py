"""The journal: exchanges on disk until the database has them, and recovery after a crash."""
