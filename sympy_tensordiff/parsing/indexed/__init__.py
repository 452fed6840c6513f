"""Index notation as text: text -> tree (`syntax`), names and ranges (`names`, `ranges`) -> expressions (`build`)."""
