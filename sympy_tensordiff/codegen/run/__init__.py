"""From a text to a callable: compiled, kept on disk, called with checked arguments."""
