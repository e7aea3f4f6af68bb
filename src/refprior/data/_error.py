"""The one error of the readers."""


class DataError(ValueError):
    """A file, folder or array is not what it should be; the message names it and gives the numbers.

    >>> from refprior.data import DataError
    >>> issubclass(DataError, ValueError)
    True
    """
