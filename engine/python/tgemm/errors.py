"""What goes wrong, by kind. Each is a built-in error as well, so that code that knows nothing of tgemm may catch it."""


class Error(Exception):
    """Everything that tgemm raises on purpose."""


class ProblemError(Error, ValueError):
    """A problem that cannot be, or a text that is no key, no element type or no word."""


class DatabaseError(Error, OSError):
    """Tables that could not be read or written, or cannot be asked like this."""


class DeviceError(Error, RuntimeError):
    """A device that is not here, or another one than a database was opened for."""


class RecordError(Error, OSError):
    """Recorded problems that could not be kept or written."""


class LaunchError(Error, RuntimeError):
    """A product that failed after it may have begun: its output is not to be trusted, and nothing ran instead."""
