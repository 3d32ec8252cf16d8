"""FOOL in other libraries' clothes: one short module for each, which needs that library and no other module here."""
