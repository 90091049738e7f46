"""How work ends early: a mistake that a user can mend, and Ctrl-C."""

from __future__ import annotations

from judgebench.visible import visible


class UserError(Exception):
    """A mistake of the user's, told in one sentence: what was wrong, where, and what would be right.

    The command line prints the sentence without a traceback and exits with code 2. What data may hold and no terminal
    can show (half a character), or would obey (an escape sequence), stands in it as its number.
    """

    def __init__(self, sentence: object = "") -> None:
        super().__init__(visible(str(sentence)).encode("utf-8", "backslashreplace").decode("utf-8"))


class Told(UserError):
    """A mistake that another process of the same run tells the user."""


class Refusal(SystemExit):
    """Ends the program with code 2; `sentence` is for whoever started the work to print.

    A sweep records it as the reason why one of its jobs failed, and goes on.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(2)
        self.sentence = f"{sentence.rstrip('.')}."

    def __reduce__(self) -> tuple[type[Refusal], tuple[str]]:
        return Refusal, (self.sentence,)  # launchers send it between processes


class Terminated(KeyboardInterrupt):
    """The system, or a cluster's scheduler, asks the program to end (SIGTERM), which it does as by Ctrl-C."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; `sentence` says what is kept, for whoever started the work to print."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
