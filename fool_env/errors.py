"""What can go wrong: both errors are ValueErrors, so `except ValueError` catches either."""


class RulesError(ValueError):
    """Rules, a card or a deal that FOOL does not have; the message says which field or card, and why."""


class IllegalActionError(ValueError):
    """A play that the rules forbid now; the message names the card, the hand and the legal cards."""
