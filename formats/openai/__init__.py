"""The dialect of the OpenAI Chat Completions API, in both directions."""
