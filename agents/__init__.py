"""Players: whatever looks at a view of the table and chooses a card."""
