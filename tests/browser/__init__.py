"""The pages in Chromium: `make browser`.

traffic     model answers and requests that the tests share
pictures    takes the pictures of `docs/images`
"""
