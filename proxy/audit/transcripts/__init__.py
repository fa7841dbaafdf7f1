"""Transcripts: the stored content of exchanges.

assembly       builds a transcript from a capture: redacted as a whole stream, limited in size
codec          packs and unpacks it
replay_input   the settings with which an answer was decoded, to decode it again
"""
