"""Index notation as text: text -> tree (`parsing.frontend`), names and ranges (`names`) -> expressions (`build`)."""
