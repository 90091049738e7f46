"""The one exception for mistakes that a user can mend."""


class UserError(Exception):
    """A mistake of the user's, told in one sentence: what was wrong, where, and what would be right.

    The command line prints the sentence without a traceback and exits with code 2.
    """
