"""Index notation as text: `api` parses a text, `names` its declarations, `build` its expression."""
