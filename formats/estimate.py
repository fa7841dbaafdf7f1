"""Temporary."""

from formats.conversation import Conversation


def estimate_tokens(conversation: Conversation) -> int:
    return max(1, sum(len(v) for v in conversation.source.values()) // 4)
