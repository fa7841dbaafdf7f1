"""Tool calls that models write into their text, one module per model family."""
