"""The dialect of the Anthropic Messages API, in both directions."""
