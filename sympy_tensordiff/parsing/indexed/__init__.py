"""Index notation as text: text -> tree (`parsing.front`), names and ranges (`names`) -> expressions (`build`)."""
