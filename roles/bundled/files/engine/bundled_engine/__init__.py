"""A small CPU engine over multilingual-e5-small: for quickstarts and tests, not for production traffic."""

__version__ = "0.1.0"
