"""The history of times: a JSON file of each run that wrote its table into the documentation, in this folder."""
