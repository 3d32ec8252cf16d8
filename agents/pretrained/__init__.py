"""The trained agents that come with the package: NAME.zip plays, NAME.md says what it is; see `shipped.py`."""
