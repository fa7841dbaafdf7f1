"""Transcripts: assembled from a capture, packed for storage, read back for pages and replays."""
