"""A local web page to try the package.

Requests to the `server` go to worker processes (`workers`), which compute the answers (`answers`).
"""
