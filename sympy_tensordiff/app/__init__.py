"""The command line, the demonstration and the web page."""
