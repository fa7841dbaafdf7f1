"""The real Claude Code and Vercel's AI SDK through the gateway: `make e2e`.

claude, vercel     run the clients
install            installs Claude Code, at a pinned version
upstream           answers each request with the next turn of a script
native             writes turns in the native format of each family
requests           checks what reached the upstream
"""
